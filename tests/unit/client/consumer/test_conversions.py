"""What an application gives and gets: partitions with offsets, results of commits, events."""

import pytest

from ottla.client.consumer.conversions import event_message, given, one_regex, refusal_of, results_of, split_topics, starts
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.message import TopicPartition
from ottla.client.engine.commits import Commit
from ottla.client.engine.values import (
    LogTruncated,
    OffsetAndMetadata,
    PartitionEnd,
    PartitionFailure,
    PollIntervalExceeded,
    TopicUnavailable,
)
from ottla.client.membership.values import GroupSettings
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode

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


SETTINGS = GroupSettings(group_id="pilots", instance_id="gate-1", session_timeout_ms=100)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_SESSION_TIMEOUT, ("session.timeout.ms=100", "group.min.session.timeout.ms", "group.max.session.timeout.ms")),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ("partition.assignment.strategy",)),
        (ErrorCode.FENCED_INSTANCE_ID, ("group.instance.id=gate-1",)),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, ("group.max.size",)),
    ],
)
def test_the_group_and_the_settings_are_named(code: ErrorCode, words: tuple[str, ...]) -> None:
    sentence = refusal_of(code, SETTINGS)
    assert sentence is not None
    assert all(word in sentence for word in ("group pilots", *words))


def test_other_errors_have_their_own_texts() -> None:
    assert refusal_of(ErrorCode.GROUP_AUTHORIZATION_FAILED, SETTINGS) is None


def test_names_and_patterns() -> None:
    names, patterns = split_topics(["a", "^b.*"])
    assert names == ["a"]
    assert [pattern.pattern for pattern in patterns] == ["^b.*"]


@pytest.mark.parametrize("topics", ["a", [1]])
def test_something_else_is_refused(topics: object) -> None:
    with pytest.raises(TypeError, match="expected list of topic unicode strings"):
        split_topics(topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("topics", [[], ["^(a"]])
def test_no_topic_and_a_malformed_pattern_are_refused(topics: list[str]) -> None:
    with pytest.raises(KafkaException, match="Failed to set subscription"):
        split_topics(topics)


def test_one_pattern_for_several() -> None:
    assert [one_regex(patterns) for patterns in ([], ["^a"], ["^a", "^b|c"])] == ["", "^a", "(^a)|(^b|c)"]
