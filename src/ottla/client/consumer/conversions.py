"""The engine's values and what an application of confluent-kafka's interface gives and gets for them."""

from collections.abc import Sequence
from typing import Any

from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.message import ErrorMessage
from ottla.client.consumer.topic_partition import OFFSET_INVALID, TopicPartition, key
from ottla.core import model
from ottla.core.client.consumer.commits import Commit
from ottla.core.client.consumer.events import Event, LogTruncated, PartitionEnd, PartitionFailure, TopicUnavailable
from ottla.core.client.consumer.subscriptions import PartitionState
from ottla.core.client.consumer.values import OffsetAndMetadata
from ottla.core.errors import ErrorCode


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
