"""Committed offsets (S2.3): who may commit, what is stored, what is read back, and what may be forgotten.

Reads answer from what the log knows. Offsets that are too old are not looked for here.
"""

from collections.abc import Sequence
from itertools import compress

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.commands import ForgetTopics, OffsetCommit, OffsetDelete, OffsetFetch, OffsetsToCommit
from ottla.core.groups.committed import CommittedOffsets, TopicOffsets
from ottla.core.groups.effects import CommitResult, OffsetDeleteResult, OffsetFetchResult
from ottla.core.groups.events import tell_change
from ottla.core.groups.identity import check_member
from ottla.core.groups.placement import java_order
from ottla.core.groups.read_on_demand import FetchedOffsets
from ottla.core.groups.records import NO_TOPIC_ID, STRING_CHARS_SAFE, OffsetRecord, refuse_long_strings
from ottla.core.groups.states import ANSWERS, GroupState
from ottla.core.groups.step import Step
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE

NO_RETENTION = -1
TIMESTAMP_MS_MAX = 2**63 - 1


def commit_offsets(step: Step, command: OffsetCommit) -> None:
    """Store offsets for a member of the current generation, or for anybody while the group has no members."""
    topics = OffsetsToCommit.of(command.offsets).topics
    refuse_long_strings(command.group_id, *[topic.topic for topic in topics])
    group = step.group(command.group_id)
    error = _commit_refusal(step, group, command)
    if error is not ErrorCode.NONE:
        step.reply(command.reply_to, CommitResult(errors=(error,) * len(command.offsets)))
        return
    if group is not None and ANSWERS[group.state].commits_keep_session:
        step.saw(group.members[command.member_id])
    expire_timestamp_ms = None
    if command.retention_ms != NO_RETENTION:
        expire_timestamp_ms = min(max(step.now_ms + command.retention_ms, 0), TIMESTAMP_MS_MAX)
    errors: tuple[ErrorCode, ...] = (ErrorCode.NONE,) * len(command.offsets)
    for topic in topics:
        if topic.metadata is not None and not _are_short(topic.metadata, step.settings.offset_metadata_bytes_max):
            errors, topics = _without_long_metadata(topics, step.settings.offset_metadata_bytes_max)
            break
    if topics:
        step.commit = CommittedOffsets(command.group_id, topics, commit_timestamp_ms=step.now_ms, expire_timestamp_ms=expire_timestamp_ms)
        step.registry.count_commits(command.group_id, sum([len(topic.partitions) for topic in topics]))
    elif group is None:
        # As in Kafka, a commit of which nothing is kept leaves an empty group all the same, until its offsets are next looked at.
        step.registry.groups[command.group_id] = ClassicGroup(command.group_id, now_ms=step.now_ms)
    step.reply(command.reply_to, CommitResult(errors=errors))


def fetch_offsets(step: Step, command: OffsetFetch) -> None:
    """What is committed; -1 where nothing is, also for groups that nobody knows."""
    group = step.group(command.group_id)
    by_topic = step.registry.durable.offsets.get(command.group_id, {})
    if group is None or group.state is GroupState.DEAD:
        by_topic = {}
    wanted = command.topics
    if wanted is None:
        wanted = tuple((topic, tuple(sorted(by_topic[topic]))) for topic in sorted(by_topic, key=java_order))
    topics = []
    for topic, partitions in wanted:
        known = by_topic.get(topic, {})
        topic_id = command.topic_ids.get(topic, NO_TOPIC_ID)
        topics.append((topic, FetchedOffsets(partitions, list(map(known.get, partitions)), topic_id)))
    step.reply(command.reply_to, OffsetFetchResult(error=ErrorCode.NONE, topics=tuple(topics)))


def delete_offsets(step: Step, command: OffsetDelete) -> None:
    """Forget offsets of topics that nobody in the group consumes."""
    group = step.group(command.group_id)
    if group is None:
        step.reply(command.reply_to, OffsetDeleteResult(error=ErrorCode.GROUP_ID_NOT_FOUND))
        return
    answer = ANSWERS[group.state].delete_offsets
    # A consumer group says per topic whether it is in use; of other groups only members know.
    if answer is ErrorCode.NON_EMPTY_GROUP and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        answer = ErrorCode.NONE
    if answer is not ErrorCode.NONE:
        step.reply(command.reply_to, OffsetDeleteResult(error=answer))
        return
    errors = []
    for topic, partition in dict.fromkeys(command.partitions):
        if not group.is_subscribed_to(topic):
            _forget(step, command.group_id, topic, partition)
    _tell_deleted(step, group, len(step.records), "by OffsetDelete")
    for topic, _ in command.partitions:
        in_use = group.is_subscribed_to(topic)
        errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE)
    step.reply(command.reply_to, OffsetDeleteResult(error=ErrorCode.NONE, errors=tuple(errors)))


def forget_topics(step: Step, command: ForgetTopics) -> None:
    """Deleted topics take the offsets of all groups with them."""
    gone = set(command.topics)
    for group_id, by_topic in step.registry.durable.offsets.items():
        before = len(step.records)
        for topic, by_partition in by_topic.items():
            if topic in gone:
                for partition in by_partition:
                    _forget(step, group_id, topic, partition)
        _tell_deleted(step, step.registry.groups[group_id], len(step.records) - before, "its topic was deleted")
    if step.records:
        names = ", ".join(command.topics)
        step.log(f"Generated {len(step.records)} tombstone records in 0 milliseconds while deleting offsets for topics [{names}].")


def forget_group(step: Step, group_id: str) -> None:
    """Tombstones for every offset of a group; telling of it is left to who deletes the group."""
    for topic, by_partition in step.registry.durable.offsets.get(group_id, {}).items():
        for partition in by_partition:
            _forget(step, group_id, topic, partition)


def _commit_refusal(step: Step, group: ClassicGroup | None, command: OffsetCommit) -> ErrorCode:
    if group is None:
        if command.generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if command.knows_group_errors else ErrorCode.ILLEGAL_GENERATION
    answers = ANSWERS[group.state]
    if group.state is GroupState.DEAD:
        return answers.commit
    if command.generation < 0 and group.state is GroupState.EMPTY:
        return answers.commit_anonymous
    if command.generation < 0 and not command.member_id and command.instance_id is None:
        return answers.commit_anonymous
    error = check_member(step, group, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return answers.commit


def _without_long_metadata(topics: tuple[TopicOffsets, ...], units_max: int) -> tuple[tuple[ErrorCode, ...], tuple[TopicOffsets, ...]]:
    """An error for each partition, and the topics with those partitions that have none; PeerError for what no record could hold."""
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
    """Whether none can be over a limit: a character has at most two units, and four bytes."""
    return max(map(len, texts)) <= min(units_max // 2, STRING_CHARS_SAFE)


def _utf16_units_exceed(text: str, units_max: int) -> bool:
    """Whether Java's `String.length()` of `text` is over the limit; most texts need not be encoded to tell."""
    if len(text) * 2 <= units_max or len(text) > units_max:
        return len(text) > units_max
    return len(text.encode("utf-16-be", "surrogatepass")) // 2 > units_max


def _tell_deleted(step: Step, group: ClassicGroup, count: int, reason: str) -> None:
    if count:
        tell_change(step, group, "offsets_deleted", group.state, group.state, evidence={"offset_count": count}, reason=reason)


def _forget(step: Step, group_id: str, topic: str, partition: int) -> None:
    if step.registry.durable.committed(group_id, topic, partition) is not None:
        step.records.append(OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=None))
