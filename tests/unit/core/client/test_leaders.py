"""Leaders of partitions, from Metadata and from other responses."""

from ottla.core.client.leaders import LeaderAndEpoch, Leaders, PartitionMetadata, TopicMetadata
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def view(*leaders: int, error: ErrorCode = ErrorCode.NONE) -> TopicMetadata:
    return TopicMetadata(
        "t", error, "id", False, {at: PartitionMetadata(ErrorCode.NONE, LeaderAndEpoch(each, 5)) for at, each in enumerate(leaders)}
    )


def test_metadata_updates_leaders_but_not_by_errors() -> None:
    leaders = Leaders()
    leaders.update([view(1, 2)])
    assert (leaders.leader(ZERO), leaders.leader(ONE), leaders.topic_id("t")) == (LeaderAndEpoch(1, 5), LeaderAndEpoch(2, 5), "id")
    leaders.update([view(7, 7, error=ErrorCode.LEADER_NOT_AVAILABLE)])
    assert leaders.leader(ZERO) == LeaderAndEpoch(1, 5)
    leaders.update([view(-1, 2)])
    assert (leaders.leader(ZERO), leaders.leader(ONE)) == (None, LeaderAndEpoch(2, 5))


def test_only_a_newer_leader_counts() -> None:
    leaders = Leaders()
    assert leaders.update_leader(ZERO, LeaderAndEpoch(3, 4))
    assert not leaders.update_leader(ZERO, LeaderAndEpoch(4, 4))
    assert not leaders.update_leader(ZERO, LeaderAndEpoch(-1, 9))
    assert leaders.update_leader(ZERO, LeaderAndEpoch(4, 5))
    assert leaders.leader(ZERO) == LeaderAndEpoch(4, 5)


def test_clear() -> None:
    leaders = Leaders()
    leaders.update([view(1)])
    leaders.clear()
    assert (leaders.leader(ZERO), leaders.topic_id("t")) == (None, "")
