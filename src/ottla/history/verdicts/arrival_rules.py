"""Signatures of members that came: the first of a group, new ones, those that were there before, and static ones that came back."""

from typing import Final, NamedTuple

from ottla.history.rounds.round import Arrival, Round
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.verdicts.verdict import Confidence, Narrowed, Rule, findings_of, narrow

COLD_START_MS: Final = 1_000
"""Who joins this soon after the group's first assignment was started together with the first members."""
STILL_LISTED: Final = "its predecessor was still there"
ASSIGNOR_CAME: Final = "the assignor changed with it"
TURNS_MIN: Final = 3
LIVE_HEARTBEAT_MS: Final = 1_000
"""A member whose last heartbeat is this fresh was most likely alive when another process took its instance id."""


class Joining(NamedTuple):
    """A member that came, and the round in which it did."""

    arrival: Arrival
    round: Round


def _is_first(joining: Joining) -> bool:
    return joining.round.count_before == 0


def _is_soon_after_first(joining: Joining) -> bool:
    since_ms = joining.round.since_cold_start_ms
    return joining.round.count_before != 0 and since_ms is not None and since_ms <= COLD_START_MS


def _is_later(joining: Joining) -> bool:
    return not _is_first(joining) and not _is_soon_after_first(joining)


def _is_new(joining: Joining) -> bool:
    return joining.arrival.loss is None and not joining.arrival.replaces


def _replaces(joining: Joining) -> bool:
    return joining.arrival.replaces and joining.arrival.loss is not None


def _may_replace(joining: Joining) -> bool:
    return joining.arrival.may_replace and _is_later(joining)


def _protocol_changed(joining: Joining) -> bool:
    is_start = not _is_later(joining) and joining.arrival.loss is None  # members that start together agree on an assignor
    return joining.arrival.is_protocol_changed and not is_start


_C = Cause
_LOG, _HIGH, _MEDIUM, _LOW = Source.BROKER_LOG, Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW

ARRIVAL_RULES: Final[tuple[Rule[Joining], ...]] = (
    Rule(
        name="the first of the group",
        source=_LOG,
        condition="the group had no members, or none is known from before",
        weights={_C.COLD_START: 20, _C.JOIN_NEW: 1, _C.RESTART_DYNAMIC: 1, _C.MIGRATION: 0.1, _C.ASSIGNOR_CHANGE: 0.1, _C.ADMIN: 0.1},
        confidence=_HIGH,
        holds=_is_first,
    ),
    Rule(
        name="soon after the first",
        source=_LOG,
        condition=f"within {COLD_START_MS} ms of the group's first assignment, for which group.initial.rebalance.delay.ms was over",
        weights={_C.COLD_START: 6, _C.JOIN_NEW: 4, _C.RESTART_DYNAMIC: 1, _C.ASSIGNOR_CHANGE: 0.1, _C.MIGRATION: 0.1},
        confidence=_MEDIUM,
        holds=_is_soon_after_first,
    ),
    Rule(
        name="joined a group with members",
        source=_LOG,
        condition="the group had members, and has had them for a while",
        weights={_C.JOIN_NEW: 10, _C.RESTART_DYNAMIC: 3, _C.ASSIGNOR_CHANGE: 1.5, _C.MIGRATION: 0.3, _C.COLD_START: 0.1},
        confidence=_HIGH,
        holds=_is_later,
    ),
    Rule(
        name="not seen before",
        source=_LOG,
        condition="no member with its client id or member id went in the last 5 minutes",
        weights={_C.JOIN_NEW: 10, _C.COLD_START: 10, _C.RESTART_DYNAMIC: 0.3, _C.MIGRATION: 1, _C.ASSIGNOR_CHANGE: 1},
        confidence=_HIGH,
        holds=_is_new,
    ),
    Rule(
        name=STILL_LISTED,
        source=_LOG,
        condition="a member with the same client id was still listed, and was removed later: a killed process that started again",
        weights={_C.RESTART_DYNAMIC: 20, _C.JOIN_NEW: 1, _C.COLD_START: 0.2},
        confidence=_MEDIUM,
        holds=_replaces,
    ),
    Rule(
        name="another member was lost soon after",
        source=_LOG,
        condition="KIP-848: within a minute the session of a member expired of which only another random id is known",
        weights={_C.JOIN_NEW: 1, _C.RESTART_DYNAMIC: 30, _C.MIGRATION: 1, _C.COLD_START: 1, _C.ASSIGNOR_CHANGE: 1},
        confidence=_LOW,
        holds=_may_replace,
    ),
    Rule(
        name=ASSIGNOR_CAME,
        source=_LOG,
        condition="the assignment before and after are of different assignors",
        weights={_C.ASSIGNOR_CHANGE: 500, _C.JOIN_NEW: 1, _C.RESTART_DYNAMIC: 1},
        confidence=_MEDIUM,
        holds=_protocol_changed,
    ),
)
"""For members that were not there before. One that came back has the cause of its departure."""


def _silence_ms(item: Evidence) -> int | None:
    return item.evidence.get("last_heartbeat_age_ms")


def _items(rebalance: Round) -> list[Evidence]:
    return [item for part in rebalance.parts for item in part.items]


def _fenced(rebalance: Round) -> bool:
    return any(item.kind is Kind.STATIC_FENCED for item in _items(rebalance))


def _replaced(rebalance: Round) -> bool:
    return any(item.kind is Kind.STATIC_REPLACED for item in _items(rebalance)) and not _fenced(rebalance)


def _took_turns(rebalance: Round) -> bool:
    replaced = (sum(item.kind is Kind.STATIC_REPLACED for item in part.items) for part in rebalance.parts)
    return max(replaced, default=0) >= TURNS_MIN


def _was_alive(rebalance: Round) -> bool:
    return any((_silence_ms(item) or LIVE_HEARTBEAT_MS) < LIVE_HEARTBEAT_MS for item in _items(rebalance))


def _refused(rebalance: Round) -> bool:
    return any(item.kind is Kind.JOIN_REFUSED and item.trigger is None for item in _items(rebalance))


def _shares_no_assignor(rebalance: Round) -> bool:
    return any(item.kind is Kind.JOIN_REFUSED and item.trigger == Cause.FAILED_JOIN for item in _items(rebalance))


def _owner_was_silent(rebalance: Round) -> bool:
    return rebalance.is_owner_silent is True


def _owner_lived(rebalance: Round) -> bool:
    return rebalance.is_owner_silent is False


def _had_left(rebalance: Round) -> bool:
    """KIP-848: it said before that it leaves for now."""
    instances = {item.instance_id for item in _items(rebalance)}
    return any(item.kind is Kind.MEMBER_LEFT and item.instance_id in instances for item in rebalance.context)


AVOIDED_RULES: Final[tuple[Rule[Round], ...]] = (
    Rule(
        name="an instance id came back",
        source=Source.BROKER_LOG,
        condition="a static member was replaced by a new member id, without a rebalance",
        weights={_C.STATIC_REJOIN: 9, _C.STATIC_FENCED: 2},
        confidence=_HIGH,
        holds=_replaced,
    ),
    Rule(
        name="an instance id is in use",
        source=Source.BROKER_LOG,
        condition="a request of a static member was refused, since another member has its instance id",
        weights={_C.STATIC_FENCED: 1},
        confidence=_HIGH,
        holds=_fenced,
    ),
    Rule(
        name="the instance id went back and forth",
        source=Source.BROKER_LOG,
        condition=f"it was given to another member id {TURNS_MIN} times or more, each within seconds: two processes replace each other",
        weights={_C.STATIC_FENCED: 100, _C.STATIC_REJOIN: 1},
        confidence=_HIGH,
        holds=_took_turns,
    ),
    Rule(
        name="its predecessor was alive",
        source=Source.GROUP_EVENTS,
        condition=f"the replaced member had sent a heartbeat less than {LIVE_HEARTBEAT_MS} ms before",
        weights={_C.STATIC_REJOIN: 1, _C.STATIC_FENCED: 2},
        confidence=_MEDIUM,
        holds=_was_alive,
    ),
    Rule(
        name="an instance id is not released",
        source=Source.BROKER_LOG,
        condition="UNRELEASED_INSTANCE_ID: KIP-848: a member may not join as long as another one has its instance id",
        weights={_C.STATIC_FENCED: 3, _C.FAILED_JOIN: 2},
        confidence=_HIGH,
        holds=_refused,
    ),
    Rule(
        name="shares no assignor",
        source=Source.CLIENT_LOG,
        condition="INCONSISTENT_GROUP_PROTOCOL: the group's members have no assignor in common with it, or are of another type",
        weights={_C.FAILED_JOIN: 1},
        confidence=_HIGH,
        holds=_shares_no_assignor,
    ),
    Rule(
        name="the owner of its instance id was dead",
        source=Source.BROKER_LOG,
        condition="the session of the member with this instance id expired within a minute: a process that was killed and started again",
        weights={_C.STATIC_FENCED: 1, _C.FAILED_JOIN: 8},
        confidence=_HIGH,
        holds=_owner_was_silent,
    ),
    Rule(
        name="the owner of its instance id lived",
        source=Source.BROKER_LOG,
        condition="the member with this instance id did not expire",
        weights={_C.STATIC_FENCED: 50, _C.FAILED_JOIN: 1},
        confidence=_HIGH,
        holds=_owner_lived,
    ),
    Rule(
        name="it had left for now",
        source=Source.BROKER_LOG,
        condition="KIP-848: the static member had left with epoch -2",
        weights={_C.STATIC_REJOIN: 20, _C.STATIC_FENCED: 0.5},
        confidence=_HIGH,
        holds=_had_left,
    ),
)


def judge_avoided(rebalance: Round) -> Narrowed:
    """Restarted, or fenced."""
    return narrow(findings_of(AVOIDED_RULES, rebalance))
