"""Committed offsets that are too old go, and groups that have nothing left go with them (S2.5; `offsets.retention.minutes`).

A pass looks at every group, a bounded part of it in each step, so that requests are served in between. Offsets of deleted topics, and
what an administrator deletes, are not decided here.
"""

from dataclasses import dataclass

from ottla.core.groups.classic_group import UNKNOWN_MS, ClassicGroup
from ottla.core.groups.commands import ExpireOffsets
from ottla.core.groups.durable import OffsetsByTopic
from ottla.core.groups.events import tell_change
from ottla.core.groups.records import GroupMetadataRecord, OffsetRecord, OffsetValue
from ottla.core.groups.states import GroupState
from ottla.core.groups.step import Pass, Step
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE

LOOKED_AT_PER_STEP = 5_000
"""Groups and offsets that a step looks at before it leaves the rest to the next one; the group it is at is finished."""
TOMBSTONES_PER_STEP = 500
"""Tombstones of offsets in one step, and so in one batch; what a group has beyond them waits for the next step."""


@dataclass(slots=True)
class _Found:
    """What a look at one group found: how many offsets it saw, those that have expired, and whether these are all that the group has."""

    looked_at: int
    expired: list[tuple[str, int]]
    is_all: bool


def expire_offsets(step: Step, _: ExpireOffsets) -> None:
    """One step of a pass: begins one if none is under way; the pass is over when the registry has none any more."""
    registry = step.registry
    under_way = registry.expiry
    if under_way is None:
        under_way = registry.expiry = Pass(group_ids=[*reversed(registry.groups)], began_at_ms=step.now_ms)
    budget = LOOKED_AT_PER_STEP
    while under_way.group_ids and budget > 0 and len(step.records) < TOMBSTONES_PER_STEP:
        group = registry.groups.get(under_way.group_ids.pop())
        if group is not None:
            budget -= 1 + _expire_group(step, group, under_way)
    under_way.tombstones += len(step.records)
    if not under_way.group_ids:
        registry.expiry = None
        if under_way.tombstones:
            took_ms = step.now_ms - under_way.began_at_ms
            step.log(f"Generated {under_way.tombstones} tombstone records while cleaning up group metadata in {took_ms} milliseconds.")


def _expire_group(step: Step, group: ClassicGroup, under_way: Pass) -> int:
    """Tombstones for what has expired of one group; returns how many offsets were looked at."""
    by_topic = step.registry.durable.offsets.get(group.group_id, {})
    room = TOMBSTONES_PER_STEP - len(step.records)
    found = _look(step, group, by_topic, room)
    for topic, partition in found.expired[:room]:
        step.records.append(OffsetRecord(group_id=group.group_id, topic=topic, partition=partition, value=None))
    if found.expired:
        count = min(len(found.expired), room)
        evidence = {"offset_count": count, "offsets_retention_ms": step.settings.offsets_retention_ms}
        tell_change(step, group, "offsets_expired", group.state, group.state, evidence=evidence)
    if len(found.expired) > room:
        under_way.group_ids.append(group.group_id)
    elif found.is_all and group.state is GroupState.EMPTY:
        # A group without a record gets its tombstone, too, as in Kafka: replaying it is what removes the group.
        step.records.append(GroupMetadataRecord(group_id=group.group_id, value=None))
        tell_change(step, group, "deleted", group.state, GroupState.DEAD, reason="it has no members and no offsets")
    return found.looked_at


def _look(step: Step, group: ClassicGroup, by_topic: OffsetsByTopic, enough: int) -> _Found:
    """Look for what has expired, until more than `enough` is found."""
    if by_topic and not _may_expire(group):
        return _Found(0, [], is_all=False)
    looked_at = 0
    expired: list[tuple[str, int]] = []
    for topic, by_partition in by_topic.items():
        if len(expired) > enough:
            break
        looked_at += len(by_partition)
        if not group.is_subscribed_to(topic):
            expired += [(topic, partition) for partition, value in by_partition.items() if _has_expired(step, group, value)]
    return _Found(looked_at, expired, is_all=len(expired) == looked_at)


def _may_expire(group: ClassicGroup) -> bool:
    """Whether anything of the group can be too old: not while somebody may be consuming what we cannot see."""
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    knows_topics = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    return knows_topics and group.state is GroupState.STABLE


def _has_expired(step: Step, group: ClassicGroup, value: OffsetValue) -> bool:
    if value.expire_timestamp_ms is not None:
        return step.now_ms >= value.expire_timestamp_ms
    base_ms = value.commit_timestamp_ms
    if group.protocol_type is not None and group.state is GroupState.EMPTY and group.state_since_ms != UNKNOWN_MS:
        # Retention counts from when the last member went (KIP-211); without members of its own, a group has no such time.
        base_ms = group.state_since_ms
    return step.now_ms - base_ms >= step.settings.offsets_retention_ms
