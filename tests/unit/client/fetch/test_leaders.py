"""Leaders of partitions, from Metadata and from other responses."""

from ottla.client.fetch.leaders import LeaderAndEpoch, Leaders, PartitionMetadata, TopicMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

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


def test_metadata_of_the_past_is_left_out_where_the_topic_is_the_same() -> None:
    def topic(topic_id: str, leader: int, epoch: int) -> TopicMetadata:
        return TopicMetadata("t", ErrorCode.NONE, topic_id, False, {0: PartitionMetadata(ErrorCode.NONE, LeaderAndEpoch(leader, epoch))})

    leaders = Leaders()
    leaders.update([topic("id", 1, 5)])
    leaders.update([topic("id", 2, 4), topic("id", -1, 4)])
    assert leaders.leader(ZERO) == LeaderAndEpoch(1, 5)
    leaders.update([topic("id", 2, -1)])
    assert leaders.leader(ZERO) == LeaderAndEpoch(2, -1), "without an epoch it may be newer"
    leaders.update([topic("id", 1, 5), topic("other", 3, 0)])
    assert leaders.leader(ZERO) == LeaderAndEpoch(3, 0)
    leaders.update([topic("", 1, 7), topic("", 2, 6)])
    assert leaders.leader(ZERO) == LeaderAndEpoch(2, 6), "without ids it may be another topic"


def test_the_version_changes_with_leaders_alone() -> None:
    leaders = Leaders()
    leaders.update([view(1, 2)])
    version = leaders.version
    leaders.update([view(1, 2)])
    assert leaders.version == version
    leaders.update([view(2, 2)])
    assert leaders.version > version
    version = leaders.version
    leaders.update_leader(ZERO, LeaderAndEpoch(3, 9))
    assert leaders.version > version


def test_clear() -> None:
    leaders = Leaders()
    leaders.update([view(1)])
    leaders.clear()
    assert (leaders.leader(ZERO), leaders.topic_id("t")) == (None, "")
