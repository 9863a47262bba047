"""What Kafka's clients do alike: the phases of a member, the reasons that they give, the errors that end them, when heartbeats stop."""

from enum import StrEnum
from typing import Final

from ottla.core.errors import ErrorCode
from ottla.core.whatif.behaviour import ActionKind, Process

RETRY_MS: Final = 100
"""Clients' retry.backoff.ms."""
ADMIN: Final = "member was removed by an admin"
CLOSED: Final = "the consumer is being closed"
FOLLOW_UP: Final = "need to revoke partitions and re-join"
POLL_TIMEOUT: Final = "consumer poll timeout has expired."
RESUBSCRIBED: Final = "subscription has changed"

FATAL: Final = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    }
)
"""Errors that a client raises in its application, which ends."""


class Phase(StrEnum):
    """Where a process stands. APART: it runs and has left or lost its membership; it joins at its next poll."""

    GONE = "gone"
    APART = "apart"
    JOINING = "joining"
    SYNCING = "syncing"
    OWNING = "owning"


def stop_times(process: Process) -> list[int]:
    """When it stops sending heartbeats, in order."""
    times = []
    for action in process.actions:
        if action.kind in (ActionKind.SILENCE, ActionKind.CRASH, ActionKind.CLOSE):
            times.append(action.at_ms)
        elif action.kind is ActionKind.POLL_GAP and (action.until_ms is None or action.length_ms > process.rebalance_timeout_ms):
            times.append(action.at_ms + process.rebalance_timeout_ms)
    return sorted(times)
