"""Expiry of committed offsets (`offsets.retention.minutes`), and of groups that are then left without members and offsets.

A pass visits every group, in steps of bounded size, so that requests are handled between them.
"""

from dataclasses import dataclass

from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import ExpireOffsets
from ottla.core.groups.coordinator_state import ExpiryPass
from ottla.core.groups.events import emit_change
from ottla.core.groups.group import DEAD_STATE, Group
from ottla.core.groups.log.records import GroupMetadataRecord, OffsetRecord, OffsetValue
from ottla.core.groups.log.replayed_state import OffsetsByTopic

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
        emit_change(context, group, "offsets_expired", group.state_name, group.state_name, evidence=evidence)
    if len(scan.expired) > remaining:
        expiry.group_ids.append(group.group_id)
    elif scan.is_all and group.is_empty:
        # As in Kafka, a group without a record gets a tombstone, too: its replay removes the group.
        context.records.append(GroupMetadataRecord(group_id=group.group_id, value=None))
        emit_change(context, group, "deleted", group.state_name, DEAD_STATE, reason="it has no members and no offsets")
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
    return _Scan(visited, expired, is_all=len(expired) == visited)


def _has_expired(context: CommandContext, value: OffsetValue, empty_since_ms: int | None) -> bool:
    if value.expire_timestamp_ms is not None:
        return context.now_ms >= value.expire_timestamp_ms
    start_ms = value.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
    return context.now_ms - start_ms >= context.settings.offsets_retention_ms
