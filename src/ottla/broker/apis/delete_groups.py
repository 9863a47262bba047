"""DeleteGroups (42), v0-2: deletes groups that have no members, with their offsets."""

from functools import partial
from typing import Any

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.groups.commands import DeleteGroup, DeleteResult, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, groups: GroupRouter, scheduler: RequestScheduler) -> None:
    """Ask each group's coordinator, in pieces and answer when the last one has; a group that is named twice counts once, as in Kafka."""
    group_ids = tuple(dict.fromkeys(request.message.groups_names))
    if group_ids:
        scheduler.run(request, _ask(groups, scheduler, request, group_ids))
    else:
        scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": ()}))


def _ask(groups: GroupRouter, scheduler: RequestScheduler, request: Request, group_ids: tuple[str, ...]) -> Work:
    errors: dict[str, ErrorCode] = {}

    def take(group_id: str, result: Result) -> None:
        assert isinstance(result, DeleteResult)
        errors[group_id] = result.error
        if len(errors) == len(group_ids):
            results = ({"group_id": group_id, "error_code": errors[group_id]} for group_id in group_ids)
            scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": results}))

    for group_id in group_ids:
        reply_to = groups.expect_reply(partial(take, group_id), request)
        groups.run(group_id, DeleteGroup(reply_to=reply_to, group_id=group_id))
        yield


def _refuse(group_id: str, error: ErrorCode) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error}


API = Api(
    key=ApiKey.DELETE_GROUPS,
    versions=range(3),
    handle=handle,
    access=(Access(Operation.DELETE, ResourceType.GROUP, "groups_names[]", refuse=_refuse, answers="results"),),
)
