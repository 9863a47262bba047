"""Records between a transaction's begin and its end count when it ends, and never when it is aborted."""

import pytest

from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.metadata_replay import MetadataReplay
from ottla.metadata.records import AbortTransaction, BeginTransaction, EndTransaction, FeatureLevelRecord, PartitionChangeRecord

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
    cluster_metadata = ClusterMetadata((1,), lambda _name: "")
    replay = MetadataReplay(cluster_metadata)
    for record in records:
        replay.replay(record)
    assert (cluster_metadata.features, replay.is_pending) == (features, is_pending)


def test_a_record_about_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(LookupError):
        MetadataReplay(ClusterMetadata((1,), lambda _name: "")).replay(PartitionChangeRecord(topic_id=bytes(16), partition=0, leader=1))
