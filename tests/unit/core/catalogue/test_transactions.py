"""Records between a transaction's begin and its end count when it ends, and never when it is aborted."""

import pytest

from ottla.core.catalogue.catalogue import Catalogue
from ottla.core.catalogue.records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from ottla.core.catalogue.transactions import Replay

ONE = FeatureLevelRecord(name="one", level=1)
TWO = FeatureLevelRecord(name="two", level=2)


@pytest.mark.parametrize(
    ("records", "features", "is_pending"),
    [
        ([ONE], {"one": 1}, False),
        ([BeginTransaction(), ONE], {}, True),
        ([BeginTransaction(), ONE, EndTransaction()], {"one": 1}, False),
        ([BeginTransaction(), ONE, AbortTransaction(), TWO], {"two": 2}, False),
        ([BeginTransaction(), ONE, EndTransaction(), BeginTransaction(), TWO], {"one": 1}, True),
    ],
)
def test_what_counts(records, features, is_pending) -> None:
    catalogue = Catalogue((1,), lambda _name: "")
    replay = Replay(catalogue)
    for record in records:
        replay.feed(record)
    assert (catalogue.features, replay.is_pending) == (features, is_pending)


def test_a_record_about_nothing_is_told() -> None:
    with pytest.raises(LookupError):
        Replay(Catalogue((1,), lambda _name: "")).feed(PartitionChangeRecord(topic_id=bytes(16), partition=0, leader=1))
