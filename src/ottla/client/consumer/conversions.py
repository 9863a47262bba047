"""From the application's values in confluent-kafka's interface to the engine's and back, and sentences for a coordinator's refusals.

A topic of a subscription that begins with "^" is a regular expression. A refusal that the broker gives as a code alone is explained by the
settings that it concerns.
"""

import re
from collections.abc import Sequence
from typing import Any

from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.message import OFFSET_INVALID, ErrorMessage, TopicPartition, key
from ottla.client.engine.commits import Commit
from ottla.client.engine.subscriptions import PartitionState
from ottla.client.engine.values import Event, LogTruncated, OffsetAndMetadata, PartitionEnd, PartitionFailure, TopicUnavailable
from ottla.client.membership.values import GroupSettings
from ottla.protocol import model
from ottla.protocol.errors import ErrorCode


def refusal_of(code: ErrorCode, settings: GroupSettings) -> str | None:
    """A sentence that names the settings which do not fit; None for other errors."""
    group = f"group {settings.group_id}"
    match code:
        case ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"{group}: session.timeout.ms={settings.session_timeout_ms} is refused: it must be between the broker's "
                "group.min.session.timeout.ms (default 6000) and group.max.session.timeout.ms (default 1800000)"
            )
        case ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return (
                f"{group}: its members have no assignor in common with this one: partition.assignment.strategy must name one of theirs, too"
            )
        case ErrorCode.FENCED_INSTANCE_ID:
            return f"{group}: another consumer has joined with group.instance.id={settings.instance_id}: each needs one of its own"
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            return (
                f"{group}: another member has group.instance.id={settings.instance_id}, or its session has not ended yet: each consumer"
                " needs one of its own"
            )
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            name = "group.consumer.max.size" if settings.is_consumer_protocol else "group.max.size"
            return f"{group}: it has as many members as the broker's {name} allows"
        case _:
            return None


def one_regex(patterns: Sequence[str]) -> str:
    """A pattern that matches what any of these does, as librdkafka makes it; "" for none."""
    return patterns[0] if len(patterns) == 1 else "|".join(f"({each})" for each in patterns)


def names_and_patterns(topics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names, and patterns as texts.

    Raises TypeError for something else than a list of texts, UnicodeEncodeError for text that is not UTF-8 (as confluent-kafka does), and
    KafkaException where there is none.
    """
    if isinstance(topics, str) or not all(isinstance(topic, str) for topic in topics):
        raise TypeError("expected list of topic unicode strings")
    "".join(topics).encode()
    if not topics:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "Failed to set subscription: there is no topic; unsubscribe() ends one"))
    return [topic for topic in topics if not topic.startswith("^")], [topic for topic in topics if topic.startswith("^")]


def split_topics(topics: Sequence[str]) -> tuple[list[str], list[re.Pattern[str]]]:
    """Names and patterns. Raises what `names_and_patterns` does, and KafkaException for a malformed pattern."""
    names, patterns = names_and_patterns(topics)
    try:
        return names, [re.compile(each) for each in patterns]
    except re.error as error:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to set subscription: {error}")) from error


def offset_of(partition: Any) -> OffsetAndMetadata:
    """The offset, epoch and metadata of a partition object."""
    epoch = getattr(partition, "leader_epoch", None)
    return OffsetAndMetadata(int(partition.offset), -1 if epoch is None else epoch, partition.metadata or "")


def starts(partitions: Sequence[Any]) -> dict[model.TopicPartition, OffsetAndMetadata | None]:
    """Where each partition begins; None: at the committed offset."""
    return {key(each): None if each.offset == OFFSET_INVALID else offset_of(each) for each in partitions}


def given(message: Any, offsets: Sequence[Any] | None) -> dict[model.TopicPartition, OffsetAndMetadata] | None:
    """What to commit or store, None when neither is given."""
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if message is not None:
        if message.error() is not None:
            raise KafkaException(message.error())
        epoch = message.leader_epoch()
        where = model.TopicPartition(message.topic(), message.partition())
        return {where: OffsetAndMetadata(message.offset() + 1, -1 if epoch is None else epoch)}
    if offsets is not None:
        return {key(each): offset_of(each) for each in offsets}
    return None


def with_offsets(wanted: dict[model.TopicPartition, OffsetAndMetadata]) -> dict[model.TopicPartition, OffsetAndMetadata]:
    """Those that have an offset: without one there is nothing to commit."""
    return {partition: offset for partition, offset in wanted.items() if offset.offset >= 0}


def position_of(partition: model.TopicPartition, state: PartitionState | None) -> TopicPartition:
    """The offset of the next message, OFFSET_INVALID where it is not known."""
    if state is None or state.position is None:
        return TopicPartition(*partition)
    return TopicPartition(*partition, state.position, None, None if state.epoch < 0 else state.epoch)


def results_of(commit: Commit) -> list[TopicPartition]:
    """The partitions of a commit, each with its `error`."""
    results = []
    for partition, offset in commit.offsets.items():
        result = TopicPartition(
            *partition, offset.offset, offset.metadata or None, None if offset.leader_epoch < 0 else offset.leader_epoch
        )
        error = commit.errors.get(partition, ErrorCode.NONE)
        result.error = None if error is ErrorCode.NONE else KafkaError(error)
        results.append(result)
    return results


def _log_truncated(event: LogTruncated) -> ErrorMessage:
    name = f"{event.partition.topic}-{event.partition.partition}"
    position, diverges = event.position, event.diverges
    where = "" if diverges is None else f"; its first offset known to diverge is {diverges.offset} (epoch {diverges.leader_epoch})"
    text = f"Partition {name}'s log was truncated below offset {position.offset} (epoch {position.leader_epoch}){where}: seek to go on"
    return ErrorMessage(KafkaError(KafkaError._LOG_TRUNCATION, text), *event.partition, position.offset)


def event_message(event: Event) -> ErrorMessage:
    """What the application gets for an event."""
    if isinstance(event, PartitionEnd):
        text = f"Fetch from broker reached end of partition at offset {event.offset}"
        return ErrorMessage(KafkaError(KafkaError._PARTITION_EOF, text), *event.partition, event.offset)
    if isinstance(event, PartitionFailure):
        code = KafkaError._AUTO_OFFSET_RESET if event.error is ErrorCode.OFFSET_OUT_OF_RANGE else int(event.error)
        name = f"{event.partition.topic}-{event.partition.partition}"
        return ErrorMessage(KafkaError(code, f"{name} cannot be read: {event.why} ({event.error.name})"), *event.partition)
    if isinstance(event, TopicUnavailable):
        text = f"Subscribed topic not available: {event.topic}: {KafkaError(event.error).str()}"
        return ErrorMessage(KafkaError(event.error, text), event.topic)
    if isinstance(event, LogTruncated):
        return _log_truncated(event)
    return ErrorMessage(
        KafkaError(
            KafkaError._MAX_POLL_EXCEEDED,
            f"Application maximum poll interval ({event.interval_ms}ms) exceeded: the member has left the group and joins again",
        )
    )
