"""What is known of a topic."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.spark.migration.shape import Shape, extents, find
from ottla.spark.migration.values import Extent, MigrationError


def test_a_topic_and_its_offsets(admin: Any) -> None:
    admin.extents = {"wide": [Extent(0, 5), Extent(7, 7)]}
    found = find(admin, "wide")
    assert found == Shape("wide", "id of wide", 2)
    assert extents(admin, found) == {0: Extent(0, 5), 1: Extent(7, 7)}
    assert find(admin, "gone") is None


def test_a_topic_that_may_not_be_described(admin: Any) -> None:
    admin.failures["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(MigrationError, match="topic secret cannot be described: TOPIC_AUTHORIZATION_FAILED"):
        find(admin, "secret")
