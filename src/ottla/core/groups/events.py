"""What the events of all group types share: cause codes, the client's reason, and the event of a change.

One event per occurrence, also where Kafka is silent because a rebalance is already in progress. Events never change a group.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.group import Group
from ottla.core.model import EventMember, GroupEvent

NO_REASON = "not provided"


class Cause(StrEnum):
    """Why a group rebalances, or why it did not have to (docs/rebalances.md)."""

    JOIN_NEW = "JOIN_NEW"
    LEAVE = "LEAVE"
    POLL_TIMEOUT = "POLL_TIMEOUT"
    ADMIN_REMOVE = "ADMIN_REMOVE"
    EXPIRE_HEARTBEAT = "EXPIRE_HEARTBEAT"
    JOIN_TIMEOUT = "JOIN_TIMEOUT"
    SYNC_TIMEOUT = "SYNC_TIMEOUT"
    LEADER_REJOIN = "LEADER_REJOIN"
    METADATA_UPDATE = "METADATA_UPDATE"
    ASSIGNOR_CHANGE = "ASSIGNOR_CHANGE"
    STATIC_REJOIN = "STATIC_REJOIN"
    STATIC_FENCED = "STATIC_FENCED"
    STORE_ERROR = "STORE_ERROR"
    CAPACITY = "CAPACITY"


def reason_or_default(client_reason: str | None) -> str:
    """The client's reason as Kafka prints it."""
    return client_reason or NO_REASON


def emit_change(
    context: CommandContext,
    group: Group,
    kind: str,
    state_from: str,
    state_to: str,
    *,
    members: Sequence[EventMember] = (),
    evidence: Mapping[str, int] | None = None,
    reason: str | None = None,
) -> None:
    """Publish a change of a group; `kind` is one of GroupEvent's."""
    context.events.append(
        GroupEvent(
            at_ms=context.now_ms,
            group=group.group_id,
            kind=kind,
            generation=group.generation,
            state_from=state_from,
            state_to=state_to,
            reason=reason,
            protocol=group.protocol,
            leader=group.leader,
            members=members,
            evidence=evidence or {},
        )
    )
