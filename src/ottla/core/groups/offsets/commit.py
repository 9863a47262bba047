"""OffsetCommit: the check of who commits, and the offsets to store."""

from collections.abc import Sequence
from itertools import compress

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.commit_checks import check_commit
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.identity import find_group
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import OffsetCommit, OffsetsToCommit
from ottla.core.groups.effects import CommitResult
from ottla.core.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.core.groups.log.records import STRING_CHARS_SAFE, refuse_long_strings

NO_RETENTION = -1
TIMESTAMP_MS_MAX = 2**63 - 1


def commit_offsets(context: CommandContext, command: OffsetCommit) -> None:
    """Store offsets for a member of the current generation, or for any client while the group has no members."""
    topics = OffsetsToCommit.of(command.offsets).topics
    refuse_long_strings(command.group_id)
    for topic in topics:
        refuse_long_strings(topic.topic)
    group = find_group(context, command.group_id)
    error = _unknown_group_error(command) if group is None else check_commit(context, group, command)
    if error is not ErrorCode.NONE:
        context.reply(command.reply_to, CommitResult(errors=(error,) * len(command.offsets)))
        return
    expire_timestamp_ms = None
    if command.retention_ms != NO_RETENTION:
        expire_timestamp_ms = min(max(context.now_ms + command.retention_ms, 0), TIMESTAMP_MS_MAX)
    errors: tuple[ErrorCode, ...] = (ErrorCode.NONE,) * len(command.offsets)
    for topic in topics:
        if topic.metadata is not None and not _are_short(topic.metadata, context.settings.offset_metadata_bytes_max):
            errors, topics = _without_long_metadata(topics, context.settings.offset_metadata_bytes_max)
            break
    if topics:
        context.commit = CommittedOffsets(
            command.group_id, topics, commit_timestamp_ms=context.now_ms, expire_timestamp_ms=expire_timestamp_ms
        )
        context.state.count_commits(command.group_id, len(context.commit))
    elif group is None:
        # As in Kafka, a commit that stores nothing creates an empty group, which the next expiry pass deletes.
        context.state.groups[command.group_id] = ClassicGroup(command.group_id, now_ms=context.now_ms)
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
            partitions, offsets, epochs = [list(compress(each, fits)) for each in (topic.partitions, topic.offsets, topic.leader_epochs)]
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
