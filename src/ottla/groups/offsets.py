"""Committed offsets: commit, fetch, deletion by tombstones, and expiry (`offsets.retention.minutes`).

An expiry pass visits every group, in steps of bounded size, so that requests are handled between them. Groups that are then left without
members and offsets are removed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from ottla.coordinator.effects import LazySequence
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.commands import (
    CommitResult,
    ExpireOffsets,
    FetchedOffset,
    ForgetTopics,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    OffsetsToCommit,
    TxnOffsetCommit,
)
from ottla.groups.group import DEAD_STATE, CommandContext, ExpiryPass, Group
from ottla.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.groups.log.records import STRING_CHARS_SAFE, OffsetRecord, refuse_long_strings
from ottla.groups.log.replayed_state import OffsetsByTopic
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_codec import NO_ID
from ottla.text import java_order

NO_RETENTION = -1
TIMESTAMP_MS_MAX = 2**63 - 1


def commit_offsets(context: CommandContext, command: OffsetCommit) -> None:
    """Store offsets for a member of the current generation, or for any client while the group has no members."""
    topics = OffsetsToCommit.of(command.offsets).topics
    refuse_long_strings(command.group_id)
    for topic in topics:
        refuse_long_strings(topic.topic)
    group = context.state.groups.get(command.group_id)
    errors: tuple[ErrorCode, ...] = (ErrorCode.NONE,) * len(command.offsets)
    for topic in topics:
        if topic.metadata is not None and not _are_short(topic.metadata, context.settings.offset_metadata_bytes_max):
            errors, topics = _without_long_metadata(topics, context.settings.offset_metadata_bytes_max)
            break
    error = _unknown_group_error(command) if group is None else group.check_commit(context, command, topics)
    if error is not ErrorCode.NONE:
        context.reply(command.reply_to, CommitResult(errors=(error,) * len(command.offsets)))
        return
    expire_timestamp_ms = None
    if command.retention_ms != NO_RETENTION:
        expire_timestamp_ms = min(max(context.now_ms + command.retention_ms, 0), TIMESTAMP_MS_MAX)
    if topics:
        records = CommittedOffsets(command.group_id, topics, commit_timestamp_ms=context.now_ms, expire_timestamp_ms=expire_timestamp_ms)
        context.records_on_demand = records
        context.state.count_commits(command.group_id, len(records))
    elif group is None:
        # As in Kafka, a commit that stores nothing creates an empty group, which the next expiry pass deletes.
        context.state.groups[command.group_id] = ClassicGroup(command.group_id, now_ms=context.now_ms)
    context.reply(command.reply_to, CommitResult(errors=errors))


def commit_transactional_offsets(context: CommandContext, command: TxnOffsetCommit) -> None:
    """Store offsets that take effect when the producer's transaction is committed."""
    topics = OffsetsToCommit.of(command.offsets).topics
    refuse_long_strings(command.group_id)
    for topic in topics:
        refuse_long_strings(topic.topic)
    group = context.state.groups.get(command.group_id)
    if group is None:
        error = ErrorCode.NONE if command.generation < 0 else ErrorCode.ILLEGAL_GENERATION
    else:
        error = group.check_transactional_commit(context, command)
    if error is not ErrorCode.NONE:
        context.reply(command.reply_to, CommitResult(errors=(error,) * len(command.offsets)))
        return
    errors, topics = _without_long_metadata(topics, context.settings.offset_metadata_bytes_max)
    if topics:
        records = CommittedOffsets(command.group_id, topics, commit_timestamp_ms=context.now_ms, expire_timestamp_ms=None)
        context.records_on_demand, context.producer = records, command.producer
        context.state.count_commits(command.group_id, len(records))
    context.reply(command.reply_to, CommitResult(errors=errors))


def _unknown_group_error(command: OffsetCommit) -> ErrorCode:
    if command.generation < 0:
        return ErrorCode.NONE
    return ErrorCode.GROUP_ID_NOT_FOUND if command.knows_group_errors else ErrorCode.ILLEGAL_GENERATION


def _without_long_metadata(topics: tuple[TopicOffsets, ...], units_max: int) -> tuple[tuple[ErrorCode, ...], tuple[TopicOffsets, ...]]:
    """An error for each partition, and the topics with the partitions that have none; PeerError for metadata that no record can hold."""
    errors: list[ErrorCode] = []
    kept: list[TopicOffsets] = []
    for topic in topics:
        metadata = topic.metadata or [""] * len(topic.partitions)
        fits = [not _utf16_units_exceed(text, units_max) for text in metadata]
        errors += [ErrorCode.NONE if fit else ErrorCode.OFFSET_METADATA_TOO_LARGE for fit in fits]
        refuse_long_strings(*compress(metadata, fits))
        if any(fits):
            partitions, offsets, epochs = [
                list(compress(column, fits)) for column in (topic.partitions, topic.offsets, topic.leader_epochs)
            ]
            kept.append(TopicOffsets(topic.topic, topic.topic_id, partitions, offsets, epochs, list(compress(metadata, fits))))
    return tuple(errors), tuple(kept)


def _are_short(texts: Sequence[str], units_max: int) -> bool:
    """Whether none can exceed a limit: a character has at most two UTF-16 units, and four bytes in UTF-8."""
    return max(map(len, texts)) <= min(units_max // 2, STRING_CHARS_SAFE)


def _utf16_units_exceed(text: str, units_max: int) -> bool:
    """Whether Java's `String.length()` of `text` exceeds the limit; most texts need not be encoded to know."""
    if len(text) * 2 <= units_max or len(text) > units_max:
        return len(text) > units_max
    return len(text.encode("utf-16-be", "surrogatepass")) // 2 > units_max


NO_OFFSET = -1


class FetchedOffsets(LazySequence[FetchedOffset]):
    """The offsets of one topic, created one by one while the response is encoded.

    `values` belong to `partitions`, None where no offset is committed. They are those of the time of the request.
    """

    __slots__ = ("_partitions", "_topic_id", "_values")

    def __init__(self, partitions: Sequence[int], values: Sequence[OffsetValue | None], topic_id: bytes) -> None:
        self._partitions = partitions
        self._values = values
        self._topic_id = topic_id

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedOffset]:
        for partition, value in zip(self._partitions, self._values, strict=True):
            # Both ids are known and differ: the topic was deleted and created again, and its offsets remained.
            if value is None or (NO_ID not in (value.topic_id, self._topic_id) and value.topic_id != self._topic_id):
                yield FetchedOffset(partition=partition, offset=NO_OFFSET, leader_epoch=-1, metadata="", error=ErrorCode.NONE)
            else:
                yield FetchedOffset(
                    partition=partition,
                    offset=value.offset,
                    leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    error=ErrorCode.NONE,
                )

    def _make(self) -> tuple[FetchedOffset, ...]:
        return tuple(iter(self))


def fetch_offsets(context: CommandContext, command: OffsetFetch) -> None:
    """Answer with the committed offsets; -1 where none is committed, also for unknown groups."""
    group = context.state.groups.get(command.group_id)
    error = ErrorCode.NONE if group is None else group.check_fetch(command)
    if error is not ErrorCode.NONE:
        context.reply(command.reply_to, OffsetFetchResult(error=error))
        return
    by_topic = context.state.replayed.offsets.get(command.group_id, {})
    if group is None or group.is_dead:
        by_topic = {}
    wanted = command.topics
    if wanted is None:
        wanted = tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic, key=java_order))
    topics = []
    for topic, partitions in wanted:
        by_partition = by_topic.get(topic, {})
        topic_id = command.topic_ids.get(topic, NO_ID)
        found: Sequence[FetchedOffset] = FetchedOffsets(partitions, list(map(by_partition.get, partitions)), topic_id)
        if command.require_stable and context.state.pending_offsets:
            found = tuple(_stable(context, command.group_id, topic, offset) for offset in found)
        topics.append((topic, found))
    context.reply(command.reply_to, OffsetFetchResult(error=ErrorCode.NONE, topics=tuple(topics)))


def _stable(context: CommandContext, group_id: str, topic: str, found: FetchedOffset) -> FetchedOffset:
    """The offset, or an error where a transaction that has not ended may change it (KIP-447)."""
    if not context.state.pending_offsets.has(group_id, topic, found.partition):
        return found
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return FetchedOffset(partition=found.partition, offset=NO_OFFSET, leader_epoch=-1, metadata="", error=unstable)


def delete_offsets(context: CommandContext, command: OffsetDelete) -> None:
    """Delete offsets of topics to which no member of the group subscribes."""
    group = context.state.groups.get(command.group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.delete_offsets_error
    if group is None or error is not ErrorCode.NONE:
        context.reply(command.reply_to, OffsetDeleteResult(error=error))
        return
    errors = []
    for topic, partition in dict.fromkeys(command.partitions):
        if not group.is_subscribed_to(topic):
            _delete_offset(context, command.group_id, topic, partition)
    _emit_deleted(context, group, len(context.records), "by OffsetDelete")
    for topic, _ in command.partitions:
        in_use = group.is_subscribed_to(topic)
        errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE)
    context.reply(command.reply_to, OffsetDeleteResult(error=ErrorCode.NONE, errors=tuple(errors)))


def forget_topics(context: CommandContext, command: ForgetTopics) -> None:
    """Delete the offsets of deleted topics in all groups."""
    deleted = set(command.topics)
    for group_id, topic, partition in context.state.pending_offsets.all():
        if topic in deleted and context.state.replayed.committed(group_id, topic, partition) is None:
            _delete_offset(context, group_id, topic, partition)
    for group_id, by_topic in context.state.replayed.offsets.items():
        before = len(context.records)
        for topic, by_partition in by_topic.items():
            if topic in deleted:
                for partition in by_partition:
                    _delete_offset(context, group_id, topic, partition)
        _emit_deleted(context, context.state.groups[group_id], len(context.records) - before, "its topic was deleted")
    if context.records:
        names = ", ".join(command.topics)
        context.log(f"Generated {len(context.records)} tombstone records in 0 milliseconds while deleting offsets for topics [{names}].")


def delete_all_offsets(context: CommandContext, group_id: str) -> None:
    """Write tombstones for every offset of a group; the caller publishes the event."""
    for topic, by_partition in context.state.replayed.offsets.get(group_id, {}).items():
        for partition in by_partition:
            _delete_offset(context, group_id, topic, partition)
    for topic, partition in context.state.pending_offsets.of_group(group_id):
        if context.state.replayed.committed(group_id, topic, partition) is None:
            _delete_offset(context, group_id, topic, partition)


def _emit_deleted(context: CommandContext, group: Group, count: int, reason: str) -> None:
    if count:
        state = group.state_name
        context.emit_change(group, "offsets_deleted", state, state, evidence={"offset_count": count}, reason=reason)


def _delete_offset(context: CommandContext, group_id: str, topic: str, partition: int) -> None:
    state = context.state
    if state.replayed.committed(group_id, topic, partition) is not None or state.pending_offsets.has(group_id, topic, partition):
        context.records.append(OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=None))


VISITED_PER_STEP = 5_000
"""Groups and offsets that a step visits before it ends; it finishes the group it is at."""
TOMBSTONES_PER_STEP = 500
"""Tombstones of offsets in one step, and so in one batch; the rest of a group's follow in the next step."""


@dataclass(slots=True)
class _Scan:
    """The scan of one group: how many offsets it visited, which have expired, and whether these are all that the group has."""

    visited: int
    expired: list[tuple[str, int]]
    is_all: bool


def expire_offsets(context: CommandContext, _: ExpireOffsets) -> None:
    """Do one step of a pass; start a pass if none is in progress. The pass ends with the last group."""
    state = context.state
    expiry = state.expiry
    if expiry is None:
        expiry = state.expiry = ExpiryPass(group_ids=[*reversed(state.groups)], started_at_ms=context.now_ms)
    budget = VISITED_PER_STEP
    while expiry.group_ids and budget > 0 and len(context.records) < TOMBSTONES_PER_STEP:
        group = state.groups.get(expiry.group_ids.pop())
        if group is not None:
            budget -= 1 + _expire_group(context, group, expiry)
    expiry.tombstones += len(context.records)
    if not expiry.group_ids:
        state.expiry = None
        if expiry.tombstones:
            took_ms = context.now_ms - expiry.started_at_ms
            context.log(f"Generated {expiry.tombstones} tombstone records while cleaning up group metadata in {took_ms} milliseconds.")


def _expire_group(context: CommandContext, group: Group, expiry: ExpiryPass) -> int:
    """Write tombstones for a group's expired offsets; returns how many offsets were visited."""
    by_topic = context.state.replayed.offsets.get(group.group_id, {})
    remaining = TOMBSTONES_PER_STEP - len(context.records)
    scan = _scan_group(context, group, by_topic, remaining)
    for topic, partition in scan.expired[:remaining]:
        context.records.append(OffsetRecord(group_id=group.group_id, topic=topic, partition=partition, value=None))
    if scan.expired:
        evidence = {"offset_count": min(len(scan.expired), remaining), "offsets_retention_ms": context.settings.offsets_retention_ms}
        context.emit_change(group, "offsets_expired", group.state_name, group.state_name, evidence=evidence)
    if len(scan.expired) > remaining:
        expiry.group_ids.append(group.group_id)
    elif scan.is_all and group.is_empty:
        context.records.extend(group.tombstones())
        context.emit_change(group, "deleted", group.state_name, DEAD_STATE, reason="it has no members and no offsets")
    return scan.visited


def _scan_group(context: CommandContext, group: Group, by_topic: OffsetsByTopic, enough: int) -> _Scan:
    """Collect expired offsets, until there are more than `enough`."""
    if by_topic and not group.can_expire_offsets:
        return _Scan(0, [], is_all=False)
    visited = 0
    expired: list[tuple[str, int]] = []
    empty_since_ms = group.empty_since_ms
    for topic, by_partition in by_topic.items():
        if len(expired) > enough:
            break
        visited += len(by_partition)
        if not group.is_subscribed_to(topic):
            expired += [(topic, partition) for partition, value in by_partition.items() if _has_expired(context, value, empty_since_ms)]
    pending = context.state.pending_offsets.of_group(group.group_id) if context.state.pending_offsets else []
    if pending:  # neither they nor their group may go
        expired = [name for name in expired if name not in set(pending)]
    return _Scan(visited, expired, is_all=len(expired) == visited and not pending)


def _has_expired(context: CommandContext, value: OffsetValue, empty_since_ms: int | None) -> bool:
    if value.expire_timestamp_ms is not None:
        return context.now_ms >= value.expire_timestamp_ms
    start_ms = value.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
    return context.now_ms - start_ms >= context.settings.offsets_retention_ms
