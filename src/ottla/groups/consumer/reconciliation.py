"""The reconciliation of one member with its target (Kafka: CurrentAssignmentBuilder): one pure function and the two tables that it reads.

    keep    = assigned ∩ target
    revoke  = assigned − keep
    free    = (target − keep) − what other members own

`STEPS` says what is done for a member in each state, `OUTCOMES` what the step NEXT gives; of each the first row that holds. A member
goes to the target epoch in one step; there is none in between. A partition is never assigned while another member owns it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ottla.groups.consumer.member import NO_EPOCH, Assigned, ConsumerMember, Partitions, ReconciliationState
from ottla.protocol.errors import ErrorCode


class RequestRefused(Exception):
    """A request is answered with an error, and nothing changes."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class StepCondition(Enum):
    """What a row of STEPS needs."""

    ALWAYS = "always"
    BEHIND = "its epoch is not the target epoch"
    SUBSCRIPTION_CHANGED = "its subscription changed"
    OWNS_PENDING = "it still owns what it must revoke, or does not say; its subscription is unchanged"
    OWNS_PENDING_SUBSCRIPTION_CHANGED = "it still owns what it must revoke, or does not say; its subscription changed"
    OWNS_SOMETHING = "it owns partitions, or does not say"


class ReconciliationStep(Enum):
    """What is done for a member."""

    KEEP = "nothing"
    NEXT = "the next assignment"
    TRIM = "topics that it no longer subscribes to are revoked"
    FENCE = "FENCED_MEMBER_EPOCH"


class AssignmentNeed(Enum):
    """What a row of OUTCOMES needs."""

    REVOKE = "it must revoke partitions that it still owns"
    FREE_AND_BLOCKED = "it gets partitions, and others are not released"
    FREE = "it gets partitions"
    BLOCKED = "partitions are not released"
    ALWAYS = "otherwise"


@dataclass(frozen=True, slots=True)
class StepRow:
    """In `state`, if `condition` holds, do `step`."""

    state: ReconciliationState
    condition: StepCondition
    step: ReconciliationStep


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """If `need` holds, the member is in `state`: at its own epoch or the target's, with what it keeps or also with what is free."""

    need: AssignmentNeed
    state: ReconciliationState
    at_target_epoch: bool
    takes_free: bool
    revokes: bool


_S = ReconciliationState
STEPS: Final = (
    StepRow(_S.STABLE, StepCondition.BEHIND, ReconciliationStep.NEXT),
    StepRow(_S.STABLE, StepCondition.SUBSCRIPTION_CHANGED, ReconciliationStep.TRIM),
    StepRow(_S.STABLE, StepCondition.ALWAYS, ReconciliationStep.KEEP),
    StepRow(_S.UNREVOKED_PARTITIONS, StepCondition.OWNS_PENDING, ReconciliationStep.KEEP),
    StepRow(_S.UNREVOKED_PARTITIONS, StepCondition.OWNS_PENDING_SUBSCRIPTION_CHANGED, ReconciliationStep.TRIM),
    StepRow(_S.UNREVOKED_PARTITIONS, StepCondition.ALWAYS, ReconciliationStep.NEXT),
    StepRow(_S.UNRELEASED_PARTITIONS, StepCondition.ALWAYS, ReconciliationStep.NEXT),
    StepRow(_S.UNKNOWN, StepCondition.OWNS_SOMETHING, ReconciliationStep.FENCE),
    StepRow(_S.UNKNOWN, StepCondition.ALWAYS, ReconciliationStep.NEXT),
)
OUTCOMES: Final = (
    OutcomeRow(AssignmentNeed.REVOKE, _S.UNREVOKED_PARTITIONS, at_target_epoch=False, takes_free=False, revokes=True),
    OutcomeRow(AssignmentNeed.FREE_AND_BLOCKED, _S.UNRELEASED_PARTITIONS, at_target_epoch=True, takes_free=True, revokes=False),
    OutcomeRow(AssignmentNeed.FREE, _S.STABLE, at_target_epoch=True, takes_free=True, revokes=False),
    OutcomeRow(AssignmentNeed.BLOCKED, _S.UNRELEASED_PARTITIONS, at_target_epoch=True, takes_free=False, revokes=False),
    OutcomeRow(AssignmentNeed.ALWAYS, _S.STABLE, at_target_epoch=True, takes_free=False, revokes=False),
)

_UNKNOWN_STATE: Final = (
    "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."  # "a" is Kafka's
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSituation:
    """What a reconciliation depends on besides the member.

    `subscribed`: ids of the topics that it subscribes to. `owned`: what the member says that it owns, None if it does not say.
    `owner_epoch`: the epoch of a partition's owner, -1 without one.
    """

    target_epoch: int
    target: Partitions
    subscribed: frozenset[bytes]
    subscription_changed: bool
    subscribes_to_nothing: bool = False
    """To no name at all, not even of a topic that does not exist."""
    owned: Partitions | None
    owner_epoch: Callable[[bytes, int], int]

    def owns(self, partitions: Partitions) -> bool:
        """Whether the member has one of these, as far as it says."""
        if self.owned is None:
            return True
        return any(number in self.owned.get(topic_id, ()) for topic_id, numbers in partitions.items() for number in numbers)

    def holds(self, condition: StepCondition, member: ConsumerMember) -> bool:
        """Whether a condition holds."""
        match condition:
            case StepCondition.BEHIND:
                return member.member_epoch != self.target_epoch
            case StepCondition.SUBSCRIPTION_CHANGED:
                return self.subscription_changed
            case StepCondition.OWNS_PENDING:
                return not self.subscription_changed and self.owns(member.pending)
            case StepCondition.OWNS_PENDING_SUBSCRIPTION_CHANGED:
                return self.subscription_changed and self.owns(member.pending)
            case StepCondition.OWNS_SOMETHING:
                return self.owned is None or any(self.owned.values())
        return True


def reconcile(member: ConsumerMember, situation: MemberSituation) -> ConsumerMember:
    """The member after one step; the same object if nothing changes. Raises RequestRefused for a state that is not known."""
    row = next(row for row in STEPS if row.state is member.state and situation.holds(row.condition, member))
    match row.step:
        case ReconciliationStep.NEXT:
            return _next(member, situation)
        case ReconciliationStep.TRIM:
            return _trim(member, situation)
        case ReconciliationStep.FENCE:
            raise RequestRefused(ErrorCode.FENCED_MEMBER_EPOCH, _UNKNOWN_STATE)
    return member


def _next(member: ConsumerMember, situation: MemberSituation) -> ConsumerMember:
    keep: dict[bytes, Mapping[int, int]] = {}
    revoke: dict[bytes, Mapping[int, int]] = {}
    free: dict[bytes, list[int]] = {}
    is_blocked = False
    for topic_id in dict.fromkeys((*situation.target, *member.assigned)):
        target = situation.target.get(topic_id, ()) if topic_id in situation.subscribed else ()
        assigned, pending = member.assigned.get(topic_id, {}), member.pending.get(topic_id, {})
        kept = {number: epoch for number, epoch in assigned.items() if number in target}
        lost = {number: epoch for number, epoch in assigned.items() if number not in kept}
        wanted = [number for number in target if number not in kept]
        # The partitions of a static member that is away have an owner, too: at epoch -2.
        released = [number for number in wanted if number in pending or situation.owner_epoch(topic_id, number) == NO_EPOCH]
        is_blocked = is_blocked or len(released) < len(wanted)
        if kept:
            keep[topic_id] = kept
        if lost:
            revoke[topic_id] = lost
        if released:
            free[topic_id] = released
    needs = {
        AssignmentNeed.REVOKE: bool(revoke) and situation.owns(revoke),
        AssignmentNeed.FREE_AND_BLOCKED: bool(free) and is_blocked,
        AssignmentNeed.FREE: bool(free),
        AssignmentNeed.BLOCKED: is_blocked,
        AssignmentNeed.ALWAYS: True,
    }
    row = next(row for row in OUTCOMES if needs[row.need])
    epoch = situation.target_epoch if row.at_target_epoch else member.member_epoch
    return replace(
        member,
        state=row.state,
        previous_member_epoch=member.member_epoch,
        member_epoch=epoch,
        assigned=_joined(keep, free, epoch) if row.takes_free else keep,
        pending=revoke if row.revokes else {},
    )


def _joined(keep: Assigned, free: Partitions, epoch: int) -> Assigned:
    return {
        topic_id: {**keep.get(topic_id, {}), **dict.fromkeys(free.get(topic_id, ()), epoch)} for topic_id in dict.fromkeys((*keep, *free))
    }


def _trim(member: ConsumerMember, situation: MemberSituation) -> ConsumerMember:
    """Move what it no longer subscribes to from assigned to pending."""
    lost = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in situation.subscribed}
    if not lost:
        if situation.subscribes_to_nothing and not member.pending and not member.assigned:
            return replace(member, previous_member_epoch=member.member_epoch)  # as in Kafka, though nothing is revoked
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in lost}
    pending = {
        topic_id: {**member.pending.get(topic_id, {}), **lost.get(topic_id, {})} for topic_id in dict.fromkeys((*member.pending, *lost))
    }
    if situation.owns(pending):
        return replace(
            member,
            state=ReconciliationState.UNREVOKED_PARTITIONS,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending=pending,
        )
    return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)
