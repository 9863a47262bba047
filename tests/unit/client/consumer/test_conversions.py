"""What an application gives and gets: partitions with offsets, results of commits, events."""

import pytest

from ottla.client.consumer.conversions import event_message, given, results_of, starts
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.topic_partition import TopicPartition
from ottla.core import model
from ottla.core.client.consumer.commits import Commit
from ottla.core.client.consumer.events import LogTruncated, PartitionEnd, PartitionFailure, PollIntervalExceeded, TopicUnavailable
from ottla.core.client.consumer.values import OffsetAndMetadata
from ottla.core.errors import ErrorCode

T0, T1 = model.TopicPartition("t", 0), model.TopicPartition("t", 1)


def test_partitions_begin_at_their_offset_or_at_the_committed_one() -> None:
    found = starts([TopicPartition("t", 0, 5, "m", 3), TopicPartition("t", 1)])
    assert found == {T0: OffsetAndMetadata(5, 3, "m"), T1: None}


def test_a_commit_takes_a_message_or_offsets() -> None:
    assert given(None, None) is None
    assert given(None, [TopicPartition("t", 0, 5)]) == {T0: OffsetAndMetadata(5)}
    with pytest.raises(ValueError, match="mutually exclusive"):
        given(object(), [])


def test_each_partition_of_a_commit_has_its_error() -> None:
    commit = Commit({T0: OffsetAndMetadata(5, 3, "m"), T1: OffsetAndMetadata(6)})
    commit.errors[T1] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first, second = results_of(commit)
    assert (first.topic, first.partition, first.offset, first.metadata, first.leader_epoch, first.error) == ("t", 0, 5, "m", 3, None)
    assert (second.offset, second.metadata, second.leader_epoch) == (6, None, None)
    assert second.error == KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    ("event", "code", "where"),
    [
        (PartitionEnd(T0, 7), KafkaError._PARTITION_EOF, ("t", 0, 7)),
        (PartitionFailure(T0, ErrorCode.OFFSET_OUT_OF_RANGE, "why"), KafkaError._AUTO_OFFSET_RESET, ("t", 0, None)),
        (TopicUnavailable("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), KafkaError.UNKNOWN_TOPIC_OR_PART, ("t", None, None)),
        (PartitionFailure(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "why"), 29, ("t", 0, None)),
        (LogTruncated(T0, OffsetAndMetadata(9, 3), OffsetAndMetadata(5, 2)), KafkaError._LOG_TRUNCATION, ("t", 0, 9)),
        (LogTruncated(T0, OffsetAndMetadata(9, 3), None), KafkaError._LOG_TRUNCATION, ("t", 0, 9)),
        (PollIntervalExceeded(300_000), KafkaError._MAX_POLL_EXCEEDED, (None, None, None)),
    ],
)
def test_events_come_as_messages_with_an_error(event: object, code: int, where: tuple[object, ...]) -> None:
    message = event_message(event)  # type: ignore[arg-type]
    assert message.error().code() == code
    assert (message.topic(), message.partition(), message.offset()) == where
