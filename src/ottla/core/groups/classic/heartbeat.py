"""Heartbeat: a member says that it is alive, and learns whether the group rebalances."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.identity import check_member, find_group, restart_session
from ottla.core.groups.classic.states import ANSWERS, GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import Heartbeat
from ottla.core.groups.effects import HeartbeatResult


def heartbeat(context: CommandContext, command: Heartbeat) -> None:
    """Answer a Heartbeat; an accepted one restarts the member's session, also while the group rebalances."""
    group = find_group(context, command.group_id)
    if group is None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    elif group.state is GroupState.DEAD:
        error = ANSWERS[GroupState.DEAD].heartbeat
    else:
        error = check_member(context, group, command.member_id, command.instance_id)
        if error is ErrorCode.NONE:
            if command.generation != group.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            else:
                restart_session(context, group.members[command.member_id])
                error = ANSWERS[group.state].heartbeat
    context.reply(command.reply_to, HeartbeatResult(error=error))
