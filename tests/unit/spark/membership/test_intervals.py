"""The columns that intervals have in common; rows are in tests/spark/test_members.py."""

from ottla.spark.membership.intervals import _ATTRIBUTES
from ottla.spark.schemas import MEMBERS


def test_every_attribute_is_a_column_of_the_members():
    assert set(_ATTRIBUTES) <= set(MEMBERS.fieldNames())
