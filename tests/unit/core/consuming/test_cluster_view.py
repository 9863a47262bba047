"""Who leads what, learned from Metadata and from brokers that name a leader themselves."""

from ottla.core.consuming.cluster_view import Leader, Leaders, PartitionView, TopicView
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def view(*leaders: int, error: ErrorCode = ErrorCode.NONE) -> TopicView:
    return TopicView("t", error, "id", False, {at: PartitionView(ErrorCode.NONE, Leader(each, 5)) for at, each in enumerate(leaders)})


def test_metadata_is_taken_over_but_not_its_errors() -> None:
    leaders = Leaders()
    leaders.learn([view(1, 2)])
    assert (leaders.leader(ZERO), leaders.leader(ONE), leaders.topic_id("t")) == (Leader(1, 5), Leader(2, 5), "id")
    leaders.learn([view(7, 7, error=ErrorCode.LEADER_NOT_AVAILABLE)])
    assert leaders.leader(ZERO) == Leader(1, 5)
    leaders.learn([view(-1, 2)])
    assert (leaders.leader(ZERO), leaders.leader(ONE)) == (None, Leader(2, 5))


def test_only_a_newer_leader_is_taken_over() -> None:
    leaders = Leaders()
    assert leaders.move(ZERO, Leader(3, 4))
    assert not leaders.move(ZERO, Leader(4, 4))
    assert not leaders.move(ZERO, Leader(-1, 9))
    assert leaders.move(ZERO, Leader(4, 5))
    assert leaders.leader(ZERO) == Leader(4, 5)


def test_forgetting() -> None:
    leaders = Leaders()
    leaders.learn([view(1)])
    leaders.clear()
    assert (leaders.leader(ZERO), leaders.topic_id("t")) == (None, "")
