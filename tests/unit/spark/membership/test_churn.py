"""The score's limit; rows are in tests/spark/test_members.py."""

from ottla.spark.membership.churn import RETURNS_MAX


def test_a_return_every_ten_minutes_is_the_whole_score():
    assert 60 // RETURNS_MAX == 10
