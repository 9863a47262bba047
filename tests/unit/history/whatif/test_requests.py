"""Requests of a membership as commands of a coordinator in the same process, and results as responses."""

from ottla.client.membership import values
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.membership import Membership
from ottla.groups import commands
from ottla.groups.assignors import assignors
from ottla.history.whatif.requests import command_of, report_result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import encode_assignment

SETTINGS = values.GroupSettings(group_id="g", instance_id="i")


def joining() -> tuple[Membership, values.GroupRequest]:
    """A membership, and its JoinGroup."""
    member = Membership(SETTINGS, [assignors()["range"]], evidence=Evidence(SETTINGS, now_ms=0), now_ms=0, rng=lambda: 0.5)
    member.subscribe(frozenset({"t"}))
    member.on_metadata({"t": 2})
    member.on_coordinator(0, 0)
    member.prepared({})
    (request,) = member.next_requests(0)
    return member, request


def command(request: values.GroupRequest) -> commands.Request:
    return command_of(request, client_id="c", client_host="/h", new_member_id=lambda: "new")(7)


def test_every_command_has_the_members_identity() -> None:
    leave = values.LeaveGroup(group_id="g", member_id="m", instance_id="i", reason="why")
    leaving = commands.LeavingMember(member_id="m", instance_id="i", reason="why")
    assert command(leave) == commands.LeaveGroup(reply_to=7, group_id="g", members=(leaving,))
    join = command(joining()[1])
    assert isinstance(join, commands.JoinGroup)
    assert (join.group_id, join.instance_id, join.client_id, join.client_host, join.new_member_id) == ("g", "i", "c", "/h", "new")


def test_a_membership_gets_the_results_of_its_commands() -> None:
    member, join = joining()
    me = commands.JoinMember(member_id="m", instance_id="i", metadata=command(join).protocols[0][1])  # type: ignore[union-attr]
    joined = commands.JoinResult(error=ErrorCode.NONE, member_id="m", generation=3, protocol_name="range", leader="m", members=(me,))
    report_result(member, join, joined, 0)
    (sync,) = member.next_requests(0)
    made = command(sync)
    assert isinstance(made, commands.SyncGroup)
    assert (made.reply_to, made.member_id, made.generation) == (7, "m", 3)
    assert made.assignments == (("m", encode_assignment({"t": [0, 1]})),)
    report_result(member, sync, commands.SyncResult(error=ErrorCode.NONE, assignment=made.assignments[0][1]), 0)
    assert member.state is values.MemberState.STABLE
    (heartbeat,) = member.next_requests(3_000)
    assert command(heartbeat) == commands.Heartbeat(reply_to=7, group_id="g", generation=3, member_id="m", instance_id="i")
    report_result(member, heartbeat, commands.HeartbeatResult(error=ErrorCode.UNKNOWN_MEMBER_ID), 3_000)
    assert (member.state, member.member_id) == (values.MemberState.UNJOINED, "")
