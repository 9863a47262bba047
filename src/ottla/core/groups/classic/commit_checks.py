"""Whether a classic group accepts an OffsetCommit (Kafka: `ClassicGroup.validateOffsetCommit`)."""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.identity import check_member, restart_session
from ottla.core.groups.classic.states import ANSWERS, GroupState
from ottla.core.groups.command_context import CommandContext
from ottla.core.groups.commands import OffsetCommit


def check_commit(context: CommandContext, group: ClassicGroup, command: OffsetCommit) -> ErrorCode:
    """NONE if the commit is accepted; an accepted commit of a member restarts its session."""
    answers = ANSWERS[group.state]
    if group.state is GroupState.DEAD:
        return answers.commit
    if command.generation < 0 and group.state is GroupState.EMPTY:
        return answers.commit_anonymous
    if command.generation < 0 and not command.member_id and command.instance_id is None:
        return answers.commit_anonymous
    error = check_member(context, group, command.member_id, command.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if answers.commits_keep_session:
        restart_session(context, group.members[command.member_id])
    return answers.commit
