"""What a membership sends, as commands for a group coordinator in the same process, and what that answers, as responses.

For members in virtual time: no connection, no bytes of a request.
"""

from collections.abc import Callable

from ottla.client.fetch.requests import topic_id_bytes
from ottla.client.membership import values
from ottla.client.membership.group_membership import GroupMembership
from ottla.groups import commands
from ottla.protocol.record_codec import uuid_text

MakeCommand = Callable[[int], commands.Request]
"""The command, given its `reply_to`."""


def command_of(request: values.GroupRequest, *, client_id: str, client_host: str, new_member_id: Callable[[], str]) -> MakeCommand:
    """The command of any request but FindCoordinator, as clients send it since Kafka 2.2: a dynamic member gets its id first (KIP-394)."""
    match request:
        case values.JoinGroup():
            return lambda reply_to: commands.JoinGroup(
                reply_to=reply_to,
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=request.instance_id,
                client_id=client_id,
                client_host=client_host,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=request.protocols,
                reason=request.reason,
                require_known_member_id=True,
                supports_skip_assignment=True,
                new_member_id=new_member_id(),
            )
        case values.SyncGroup():
            return lambda reply_to: commands.SyncGroup(
                reply_to=reply_to,
                group_id=request.group_id,
                generation=request.generation,
                member_id=request.member_id,
                instance_id=request.instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=request.assignments,
            )
        case values.Heartbeat():
            return lambda reply_to: commands.Heartbeat(
                reply_to=reply_to,
                group_id=request.group_id,
                generation=request.generation,
                member_id=request.member_id,
                instance_id=request.instance_id,
            )
        case values.ConsumerGroupHeartbeat():
            owned = None if request.owned is None else {topic_id_bytes(key): tuple(each) for key, each in request.owned.items()}
            return lambda reply_to: commands.ConsumerGroupHeartbeat(
                reply_to=reply_to,
                group_id=request.group_id,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                instance_id=request.instance_id,
                rack_id=request.rack,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                topics=None if request.topics is None else frozenset(request.topics),
                regex=request.regex,
                assignor=request.assignor,
                owned=owned,
                client_id=client_id,
                client_host=client_host,
            )
        case values.LeaveGroup():
            leaving = commands.LeavingMember(member_id=request.member_id, instance_id=request.instance_id, reason=request.reason)
            return lambda reply_to: commands.LeaveGroup(reply_to=reply_to, group_id=request.group_id, members=(leaving,))
        case _:
            raise AssertionError(f"{request} is not for the coordinator")


def report_result(membership: GroupMembership, request: values.GroupRequest, result: commands.Result, now_ms: float) -> None:
    """Report the result of a request's command to the membership that made the request."""
    match request, result:
        case values.ConsumerGroupHeartbeat(), commands.ConsumerGroupHeartbeatResult():
            assigned = result.assignment
            heartbeat = values.ConsumerGroupHeartbeatResponse(
                error=result.error,
                message=result.message,
                member_epoch=result.member_epoch,
                heartbeat_interval_ms=result.heartbeat_interval_ms,
                assignment=None if assigned is None else {uuid_text(key): tuple(numbers) for key, numbers in assigned.items()},
            )
            membership.on_response(request, heartbeat, now_ms)
        case values.JoinGroup(), commands.JoinResult():
            response = values.JoinResponse(
                error=result.error,
                generation=result.generation,
                protocol_name=result.protocol_name,
                leader=result.leader,
                member_id=result.member_id,
                skip_assignment=result.skip_assignment,
                members=tuple(values.JoinedMember(each.member_id, each.instance_id, each.metadata) for each in result.members),
            )
            membership.on_response(request, response, now_ms)
        case values.SyncGroup(), commands.SyncResult():
            membership.on_response(request, values.SyncResponse(error=result.error, assignment=result.assignment), now_ms)
        case values.Heartbeat(), commands.HeartbeatResult():
            membership.on_response(request, result.error, now_ms)
        case _:
            pass
