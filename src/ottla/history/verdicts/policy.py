"""What follows from a cause alone: whether it was planned, whether a setting can avoid it, and which of the two classes it is of."""

from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause
from ottla.history.sources.group_events import CODES


class Policy(NamedTuple):
    """planned: an operator wanted it. avoidable: settings or code avoid it without giving up what was wanted. None: it depends."""

    planned: bool | None
    avoidable: bool | None
    rebalance_class: int | None = None


POLICIES: Final = {
    Cause.COLD_START: Policy(True, False),
    Cause.JOIN_NEW: Policy(True, False),
    Cause.LEAVE_CLOSE: Policy(True, False),
    Cause.RESTART_DYNAMIC: Policy(False, True),
    Cause.EXPIRE_HEARTBEAT: Policy(False, True, 1),
    Cause.POLL_TIMEOUT: Policy(False, True, 2),
    Cause.JOIN_TIMEOUT: Policy(False, True),
    Cause.SYNC_TIMEOUT: Policy(False, True),
    Cause.TOPIC_CHANGE: Policy(True, False),
    Cause.SUBSCRIPTION: Policy(True, False),
    Cause.ASSIGNOR_CHANGE: Policy(True, False),
    Cause.COOP_FOLLOWUP: Policy(True, False),
    Cause.LEADER_REJOIN_SPURIOUS: Policy(False, True),
    Cause.ADMIN: Policy(True, False),
    Cause.ENFORCED: Policy(True, None),
    Cause.CAPACITY: Policy(False, None),
    Cause.STORE_ERROR: Policy(False, None),
    Cause.MIGRATION: Policy(True, False),
    Cause.COORDINATOR_MOVE: Policy(False, False),
    Cause.STATIC_REJOIN: Policy(None, None),
    Cause.STATIC_FENCED: Policy(False, True),
    Cause.FAILED_JOIN: Policy(False, True),
    Cause.UNKNOWN: Policy(None, None),
}

LOSSES: Final = frozenset({Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT, Cause.JOIN_TIMEOUT, Cause.SYNC_TIMEOUT})
"""Causes of a member that was lost: one of them decides over every planned trigger of the same rebalance."""


SETTLING: Final = frozenset({Cause.ASSIGNOR_CHANGE, Cause.STATIC_REJOIN, Cause.STATIC_FENCED})
"""What members that start a group together set off while it settles, too: they repeat requests and agree on an assignor."""


def planned_of_trigger(code: str) -> bool | None:
    """Whether a trigger's code alone says that it was planned: None where that depends on what else happened."""
    if code in SETTLING:
        return None
    planned = {POLICIES[cause].planned for cause in CODES.get(code, (Cause.UNKNOWN,))}
    return planned.pop() if len(planned) == 1 else None
