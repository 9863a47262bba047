"""Signatures of members that came: the first of a group, new ones, and those that were there before."""

from typing import Final, NamedTuple

from ottla.history.rounds.round import Arrival, Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Source
from ottla.history.verdicts.rule import Confidence, Rule

COLD_START_MS: Final = 1_000
"""Who joins this soon after the group's first assignment was started together with the first members."""


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
    return joining.arrival.is_protocol_changed and _is_later(joining)


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
        weights={_C.JOIN_NEW: 10, _C.RESTART_DYNAMIC: 3, _C.ASSIGNOR_CHANGE: 0.3, _C.MIGRATION: 0.3, _C.COLD_START: 0.1},
        confidence=_HIGH,
        holds=_is_later,
    ),
    Rule(
        name="not seen before",
        source=_LOG,
        condition="no member with its client id or member id went in the last 5 minutes",
        weights={_C.JOIN_NEW: 10, _C.COLD_START: 10, _C.RESTART_DYNAMIC: 0.3, _C.MIGRATION: 1, _C.ASSIGNOR_CHANGE: 0.5},
        confidence=_HIGH,
        holds=_is_new,
    ),
    Rule(
        name="its predecessor was still there",
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
        name="the assignor changed with it",
        source=_LOG,
        condition="the assignment before and after are of different assignors",
        weights={_C.ASSIGNOR_CHANGE: 10_000, _C.JOIN_NEW: 1, _C.RESTART_DYNAMIC: 1},
        confidence=_MEDIUM,
        holds=_protocol_changed,
    ),
)
"""For members that were not there before. One that came back has the cause of its departure."""
