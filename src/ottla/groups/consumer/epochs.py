"""Epochs of a consumer group: what increases the group epoch, with its trigger, and the target assignment of the new one.

Several increases within the assignment interval have one target, of the newest epoch. A target is computed only while a member asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.groups.assignors._checks import AssignorError, coordinator_assignment
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import EPOCH, PARTITION_METADATA, TARGET, TARGET_EPOCH, ResolvedRegex, SubscriptionCounts
from ottla.groups.consumer.member import ConsumerMember, Partitions, target_value
from ottla.groups.consumer.reconciliation import RequestRefused
from ottla.groups.events import GroupEvent, TriggerCode
from ottla.groups.group import CommandContext
from ottla.groups.settings import ASSIGNMENT_INTERVAL
from ottla.protocol.coordinator_records import ConsumerGroupMetadataValue, TargetAssignmentMetadataValue
from ottla.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """Why the group epoch is increased: one trigger, of a member or of none."""

    code: TriggerCode
    reason: str
    member: ConsumerMember | None = None
    client_reason: str | None = None
    evidence: Mapping[str, int] | None = None


def member_bump(code: TriggerCode, member: ConsumerMember, evidence: Mapping[str, int]) -> Bump:
    """The increase for a member that joins or subscribes to something else."""
    does = "joins" if code is TriggerCode.JOIN_NEW else "subscribes to other topics"
    return Bump(code=code, reason=f"member {member.member_id} {does}", member=member, evidence=evidence)


def bump_epoch(
    context: CommandContext,
    group: ConsumerGroup,
    bumps: list[Bump],
    subscriptions: SubscriptionCounts,
    resolved: Mapping[str, ResolvedRegex],
    *,
    is_emptied: bool = False,
) -> int:
    """Increase the epoch, once for all triggers; none if there are none and the topics are the same. Returns the group's epoch.

    The hash of the topics is compared when the epoch is increased anyway, and when topics of the cluster have changed.
    """
    durable, topics = group.durable, context.state.topics
    if not bumps and not _have_topics_changed(group):
        _note_seen(group, durable.epoch)
        return durable.epoch
    metadata_hash = context.state.topic_hashes.of_group(subscriptions.topics(resolved), topics.topics)
    if metadata_hash != durable.metadata_hash and not bumps:
        bumps = [Bump(code=TriggerCode.TOPIC_CHANGE, reason="topics that the group subscribes to were created, changed or deleted")]
    epoch = durable.epoch + bool(bumps)
    _note_seen(group, epoch)
    if not bumps:
        return epoch
    context.records.append(group.record(EPOCH, "", ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)))
    if durable.has_partition_metadata:
        context.records.append(group.record(PARTITION_METADATA, "", None))
    context.log(f"[GroupId {group.group_id}] Bumped group epoch to {epoch} with metadata hash {metadata_hash}.")
    state_from = group.state_name
    for at, bump in enumerate(bumps):
        member = bump.member
        context.events.append(
            GroupEvent(
                at_ms=context.now_ms,
                group=group.group_id,
                kind="epoch_bumped",
                generation=epoch,
                state_from=state_from,
                state_to="Empty" if is_emptied else "Assigning",
                trigger=bump.code.value,
                coalesced=at > 0 or (durable.epoch > durable.assignment_epoch and not group.is_empty),
                reason=bump.reason,
                member_id=None if member is None else member.member_id,
                instance_id=None if member is None else member.instance_id,
                client_id=None if member is None else member.client_id,
                client_host=None if member is None else member.client_host,
                client_reason=bump.client_reason,
                protocol=group.protocol,
                evidence=bump.evidence or {},
                group_type=group.group_type,
            )
        )
    return epoch


def _note_seen(group: ConsumerGroup, epoch: int) -> None:
    group.seen_version, group.seen_epoch = group.topics.topics_version, epoch


def _have_topics_changed(group: ConsumerGroup) -> bool:
    """Whether a topic of the group was created, changed or deleted since the last look; a change of others is none, as in Kafka."""
    seen, durable, versions = group.seen_version, group.durable, group.topics.topic_versions
    if seen is None or group.seen_epoch > durable.epoch:
        return True
    if seen == group.topics.topics_version:
        return False
    return any(versions.get(name, 0) > seen for name in durable.subscriptions.topics(durable.regexes))


def may_assign(context: CommandContext, group: ConsumerGroup, epoch: int) -> bool:
    """Whether a target of the epoch is due."""
    durable, interval_ms = group.durable, context.group_number(group, ASSIGNMENT_INTERVAL)
    if durable.assignment_epoch >= epoch:
        return False
    return not durable.assigned_at_ms or not interval_ms or context.now_ms >= durable.assigned_at_ms + interval_ms


def assign_targets(
    context: CommandContext,
    group: ConsumerGroup,
    epoch: int,
    members: Mapping[str, ConsumerMember],
    targets: Mapping[str, Partitions],
    resolved: Mapping[str, ResolvedRegex],
) -> dict[str, Partitions]:
    """Compute the target of the epoch for these members, who had `targets` before. Raises RequestRefused if the assignor fails."""
    topics = context.state.topics
    name = group.assignor(members.values(), next(iter(context.settings.consumer_assignors)))
    assignor = context.settings.consumer_assignors.get(name)
    try:
        if assignor is None:
            raise AssignorError(f"the assignor {name} is not among group.consumer.assignors")
        known = group.subscribers.of(members, targets, resolved, topics)
        subscribers = [each.subscriber for each in known.values()]
        assignment = coordinator_assignment(assignor, subscribers, group.subscribers.partitions(topics))
    except AssignorError as error:
        context.log(f"[GroupId {group.group_id}] Failed to compute a new target assignment for epoch {epoch}: {error}")
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, None) from error
    made: dict[str, Partitions] = {}
    stored = group.durable.targets
    for member_id, (_, _, before, subscriber) in known.items():
        given = assignment[member_id]
        # A static member with a new id has no target of its own yet; a topic of the target may be gone.
        if before is not None and before is stored.get(member_id) and given == subscriber.owned and len(given) == len(before):
            made[member_id] = before
            continue
        target = {topics.topics[topic].topic_id: frozenset(numbers) for topic, numbers in given.items() if numbers}
        made[member_id] = target
        if stored.get(member_id) != target:
            context.records.append(group.record(TARGET, member_id, target_value(target)))
    value = TargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp_ms=context.now_ms)
    context.records.append(group.record(TARGET_EPOCH, "", value))
    context.log(f"[GroupId {group.group_id}] Computed a new target assignment for epoch {epoch} with '{name}' assignor.")
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="target_assigned",
            generation=epoch,
            state_from="Assigning",
            state_to="Reconciling",
            protocol=name,
            members=group.event_members(members, assignment),
            group_type=group.group_type,
        )
    )
    group.protocol = name
    return made
