"""Columns of group records that pipelines read."""

import pytest

from ottla.spark.group_records import COMMIT_RECORDS, columns
from ottla.spark.schemas import GROUP_RECORDS


def test_columns_are_those_of_group_records_in_their_order():
    assert columns("offset", "partition").fieldNames() == ["partition", "offset"]
    assert all(field in GROUP_RECORDS.fields for field in COMMIT_RECORDS.fields)
    assert "members" not in COMMIT_RECORDS.fieldNames()
    with pytest.raises(AssertionError, match="moon"):
        columns("offset", "moon")
