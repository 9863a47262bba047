"""What a request of a member changes in its group, whichever protocol it is of: a heartbeat, or a JoinGroup of the classic protocol.

In Kafka's order: the member's record, regular expressions, the group epoch, the target, and the member's way to it. Nothing durable
changes here: records are collected, and a request that is refused has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ottla.groups.classic.member import port_evidence
from ottla.groups.consumer.epochs import Bump, assign_targets, bump_epoch, may_assign, member_bump
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.group_state import CURRENT, MEMBER, REGEX, TARGET
from ottla.groups.consumer.member import ConsumerMember, Partitions, ReconciliationState, target_value
from ottla.groups.consumer.patterns import InvalidPattern, compile_pattern
from ottla.groups.consumer.reconciliation import MemberSituation, RequestRefused, reconcile
from ottla.groups.consumer.regexes import start_resolution
from ottla.groups.events import GroupEvent, TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.errors import ErrorCode


@dataclass(slots=True)
class MemberEntry:
    """The member as it was before the request, or as it would be if it is new; `replaced` is the static member whose place it takes."""

    member: ConsumerMember
    is_new: bool = False
    replaced: ConsumerMember | None = None


def replacement(holder: ConsumerMember, member_id: str) -> MemberEntry:
    """A static member comes with another id, which gets what the old one has; it has had no epoch yet."""
    return MemberEntry(replace(holder, member_id=member_id, member_epoch=0, previous_member_epoch=0), replaced=holder)


class MemberUpdate:
    """One request on its way: `subscribe`, then `assign` unless the group is about to become a classic one, then `reconcile`.

    `owned`: what the member says that it owns, None if it does not say. `may_describe`: which topics a regular expression may match.
    `client_port`: of the connection that the request came on.
    """

    __slots__ = (
        "_client_port",
        "_context",
        "_group",
        "_is_subscription_changed",
        "_may_describe",
        "_owned",
        "_resolved",
        "_since_regex",
        "assignment_epoch",
        "entry",
        "epoch",
        "member",
        "targets",
    )

    def __init__(
        self,
        context: CommandContext,
        group: ConsumerGroup,
        entry: MemberEntry,
        member: ConsumerMember,
        *,
        owned: Partitions | None,
        may_describe: Callable[[str], bool] | None,
        client_port: int,
    ) -> None:
        durable = group.durable
        self._client_port = client_port
        self._context = context
        self._group = group
        self._owned = owned
        self._may_describe = may_describe
        self._resolved = dict(durable.regexes)
        self._is_subscription_changed = False
        self._since_regex: TriggerCode | None = None
        self.entry = entry
        self.member = member
        self.epoch = durable.epoch
        self.assignment_epoch = durable.assignment_epoch
        self.targets = durable.targets
        if entry.replaced is not None:
            self.targets = {id_: target for id_, target in self.targets.items() if id_ != entry.replaced.member_id}
            if entry.replaced.member_id in durable.targets:
                self.targets[member.member_id] = durable.targets[entry.replaced.member_id]

    def subscribe(self) -> None:
        """Record the member as it is now, and increase the group epoch if it subscribes to something else. Raises RequestRefused."""
        context, group, entry, member = self._context, self._group, self.entry, self.member
        durable = group.durable
        if entry.replaced is not None:
            _replace(context, group, entry.replaced, entry.member, port_evidence(self._client_port))
        if entry.is_new or member != entry.member:
            context.records.append(group.record(MEMBER, member.member_id, member.metadata_value()))
        # What the group's subscriptions are once this request is stored.
        old = entry.replaced if entry.replaced is not None else None if entry.is_new else entry.member
        before = old or ConsumerMember(member_id=member.member_id)
        self._is_subscription_changed = (member.topics, member.regex) != (before.topics, before.regex)
        subscriptions = durable.subscriptions.changed(old, member) if self._is_subscription_changed else durable.subscriptions
        bumps = [self._bump()] if member.topics != before.topics else []
        is_new_regex = self._change_regex(before, bumps)
        self.epoch = bump_epoch(context, group, bumps, subscriptions, self._resolved)
        start_resolution(context, group, subscriptions, is_new=is_new_regex, may_describe=self._may_describe)

    def assign(self) -> None:
        """Compute a new target if one is due. Raises RequestRefused if the assignor fails."""
        context, group, entry = self._context, self._group, self.entry
        if not may_assign(context, group, self.epoch):
            return
        members = dict(group.durable.members)
        if entry.replaced is not None:
            del members[entry.replaced.member_id]
        members[self.member.member_id] = self.member
        self.targets = assign_targets(context, group, self.epoch, members, self.targets, self._resolved)
        self.assignment_epoch = self.epoch

    def reconcile(self) -> ConsumerMember:
        """The member after one step to its target, which is recorded if it changed. Raises RequestRefused for an unknown state."""
        context, group, member = self._context, self._group, self.member
        if self._since_regex is not None:
            group.timers_of(member.member_id).since_regex = self._since_regex
        if (
            member.state is ReconciliationState.STABLE
            and member.member_epoch == self.assignment_epoch
            and not self._is_subscription_changed
        ):
            return member
        topics, resolved = context.state.topics.topics, self._resolved
        names = member.topics | resolved[member.regex].topics if member.regex in resolved else member.topics
        situation = MemberSituation(
            target_epoch=self.assignment_epoch,
            target=self.targets.get(member.member_id, {}),
            subscribed=frozenset(topics[name].topic_id for name in names if name in topics),
            subscription_changed=self._is_subscription_changed,
            subscribes_to_nothing=not names,
            owned=self._owned,
            owner_epoch=group.durable.owner_epoch,
        )
        reconciled = reconcile(member, situation)
        if reconciled == member:
            return member
        context.records.append(group.record(CURRENT, reconciled.member_id, reconciled.assignment_value()))
        self._emit_progress(reconciled)
        if not reconciled.is_classic:
            # A member of the classic protocol has timers for joining and syncing instead.
            if reconciled.state is ReconciliationState.UNREVOKED_PARTITIONS:
                group.arm_revocation(context, reconciled)
            else:
                context.cancel(group.timers_of(reconciled.member_id).revocation)
        return reconciled

    def _emit_progress(self, reconciled: ConsumerMember) -> None:
        """Say how long a member took to give up what it had to, and to have its target. Silent where its partitions stay the same."""
        context, group, member = self._context, self._group, self.member
        timers = group.timers_of(reconciled.member_id)
        figures: dict[str, int] = {}
        if reconciled.state is ReconciliationState.UNREVOKED_PARTITIONS:
            if timers.revoking_since_ms is None:
                timers.revoking_since_ms = context.now_ms
        elif timers.revoking_since_ms is not None:
            figures["revocation_ms"] = context.now_ms - timers.revoking_since_ms
            timers.revoking_since_ms = None
        has_other = member.state is not ReconciliationState.STABLE or reconciled.assigned != member.assigned
        if reconciled.state is ReconciliationState.STABLE and has_other:
            is_computed_now = self.assignment_epoch != group.durable.assignment_epoch
            computed_ms = context.now_ms if is_computed_now else group.durable.assigned_at_ms
            if computed_ms:
                # A group that was a classic one has a target without a time.
                figures["reconciliation_ms"] = context.now_ms - computed_ms
        if not figures:
            return
        context.events.append(
            GroupEvent(
                at_ms=context.now_ms,
                group=group.group_id,
                kind="member_reconciled",
                generation=self.assignment_epoch,
                state_from=member.state.name,
                state_to=reconciled.state.name,
                member_id=reconciled.member_id,
                instance_id=reconciled.instance_id,
                client_id=reconciled.client_id,
                client_host=reconciled.client_host,
                protocol=group.protocol,
                evidence={"member_epoch": reconciled.member_epoch, **figures},
                group_type=group.group_type,
            )
        )

    def _bump(self) -> Bump:
        code = TriggerCode.JOIN_NEW if self.entry.is_new else TriggerCode.SUBSCRIPTION_CHANGE
        return member_bump(code, self.member, port_evidence(self._client_port))

    def _change_regex(self, before: ConsumerMember, bumps: list[Bump]) -> bool:
        """Take note of another regular expression. Returns whether it is new to the group: its topics must be looked up."""
        context, group, member, resolved = self._context, self._group, self.member, self._resolved
        if member.regex == before.regex:
            return False
        counts = group.durable.subscriptions.regexes
        if before.regex and counts.get(before.regex) == 1:
            context.records.append(group.record(REGEX, before.regex, None))
            resolved.pop(before.regex, None)
        if member.regex and member.regex not in counts:
            try:
                compile_pattern(member.regex)
            except InvalidPattern as error:
                message = f"SubscribedTopicRegex `{member.regex}` is not a valid regular expression: {error}."
                raise RequestRefused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error
            self._await_regex(bumps)
            return True
        if member.regex and member.regex not in resolved:
            self._await_regex(bumps)
        elif not bumps:
            bumps.append(self._bump())
        return False

    def _await_regex(self, bumps: list[Bump]) -> None:
        """The epoch grows when the topics of the expression are known, and for this reason."""
        is_joining = self.entry.is_new and not bumps
        self._since_regex = TriggerCode.JOIN_NEW if is_joining else TriggerCode.SUBSCRIPTION_CHANGE


def _replace(context: CommandContext, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, evidence: Mapping[str, int]) -> None:
    for record_type in (CURRENT, TARGET, MEMBER):
        context.records.append(group.record(record_type, old.member_id, None))
    context.records.append(group.record(MEMBER, new.member_id, new.metadata_value()))
    context.records.append(group.record(TARGET, new.member_id, target_value(group.durable.target(old.member_id))))
    context.records.append(group.record(CURRENT, new.member_id, new.assignment_value()))
    # The old member's timers run on, and will find no member.
    state = group.state_name
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind="static_replaced",
            generation=group.durable.epoch,
            state_from=state,
            state_to=state,
            trigger=TriggerCode.STATIC_REJOIN.value,
            member_id=new.member_id,
            instance_id=new.instance_id,
            client_id=new.client_id,
            client_host=new.client_host,
            protocol=group.protocol,
            members=(group.event_member(old, group.by_name(old.assigned)), group.event_member(new, group.by_name(new.assigned))),
            evidence={**group.liveness(context, old), **evidence},
            group_type=group.group_type,
        )
    )
