"""The requests of a modelled member, as the coordinator's commands; each function takes the `reply_to` last, when it is known."""

from collections.abc import Callable

from ottla.core.groups.commands import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, Request, SyncGroup
from ottla.core.whatif.behaviour import Process
from ottla.core.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE

MakeRequest = Callable[[int], Request]


def join(
    group_id: str, process: Process, member_id: str, *, assignor: str, metadata: bytes, reason: str | None, new_id: str
) -> MakeRequest:
    """JoinGroup as clients send it since Kafka 2.2: a new dynamic member gets its id first (KIP-394)."""
    return lambda reply_to: JoinGroup(
        reply_to=reply_to,
        group_id=group_id,
        member_id=member_id,
        instance_id=process.instance_id,
        client_id=process.name,
        client_host=process.client_host,
        session_timeout_ms=process.session_timeout_ms,
        rebalance_timeout_ms=process.rebalance_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=((assignor, metadata),),
        reason=reason,
        require_known_member_id=True,
        supports_skip_assignment=True,
        new_member_id=new_id,
    )


def sync(
    group_id: str, process: Process, member_id: str, generation: int, *, assignor: str, assignments: tuple[tuple[str, bytes], ...]
) -> MakeRequest:
    """SyncGroup; `assignments` are the leader's."""
    return lambda reply_to: SyncGroup(
        reply_to=reply_to,
        group_id=group_id,
        generation=generation,
        member_id=member_id,
        instance_id=process.instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=assignments,
    )


def heartbeat(group_id: str, process: Process, member_id: str, generation: int) -> MakeRequest:
    """Heartbeat."""
    return lambda reply_to: Heartbeat(
        reply_to=reply_to, group_id=group_id, generation=generation, member_id=member_id, instance_id=process.instance_id
    )


def leave(group_id: str, process: Process, member_id: str, reason: str) -> MakeRequest:
    """LeaveGroup of one member."""
    leaving = LeavingMember(member_id=member_id, instance_id=process.instance_id, reason=reason)
    return lambda reply_to: LeaveGroup(reply_to=reply_to, group_id=group_id, members=(leaving,))
