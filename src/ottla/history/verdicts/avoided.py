"""Judges what static membership avoided: a member that came back under its instance id, or a second process that used it."""

from typing import Final

from ottla.history.rounds.round import Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.verdicts.rule import Confidence, Narrowed, Rule, findings_of, narrow

LIVE_HEARTBEAT_MS: Final = 1_000
"""A member whose last heartbeat is this fresh was most likely alive when another process took its instance id."""

_C, _HIGH, _MEDIUM = Cause, Confidence.HIGH, Confidence.MEDIUM


def _silence_ms(item: Evidence) -> int | None:
    return item.evidence.get("last_heartbeat_age_ms")


def _items(each: Round) -> list[Evidence]:
    return [item for part in each.parts for item in part.items]


def _fenced(each: Round) -> bool:
    return any(item.kind is Kind.STATIC_FENCED for item in _items(each))


def _replaced(each: Round) -> bool:
    return not _fenced(each)


def _was_alive(each: Round) -> bool:
    return any((_silence_ms(item) or LIVE_HEARTBEAT_MS) < LIVE_HEARTBEAT_MS for item in _items(each))


def _had_left(each: Round) -> bool:
    """KIP-848: it said before that it leaves for now."""
    instances = {item.instance_id for item in _items(each)}
    return any(item.kind is Kind.MEMBER_LEFT and item.instance_id in instances for item in each.context)


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
        name="its predecessor was alive",
        source=Source.GROUP_EVENTS,
        condition=f"the replaced member had sent a heartbeat less than {LIVE_HEARTBEAT_MS} ms before",
        weights={_C.STATIC_REJOIN: 1, _C.STATIC_FENCED: 2},
        confidence=_MEDIUM,
        holds=_was_alive,
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


def judge_avoided(each: Round) -> Narrowed:
    """Restarted, or fenced."""
    return narrow(findings_of(AVOIDED_RULES, each))
