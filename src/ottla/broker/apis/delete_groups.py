"""DeleteGroups (42), v0-2: deletes groups that have no members, with their offsets."""

from functools import partial

from ottla.broker.coordination.group_router import GroupRouter
from ottla.broker.network.request_scheduler import RequestScheduler, Work
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import DeleteGroup
from ottla.core.groups.effects import DeleteResult, Result
from ottla.core.wire.api_keys import ApiKey


def handle(request: Request, *, groups: GroupRouter, scheduler: RequestScheduler) -> None:
    """Ask each group's coordinator, in pieces and answer when the last one has; a group that is named twice counts once, as in Kafka."""
    group_ids = tuple(dict.fromkeys(request.message.groups_names))
    if group_ids:
        scheduler.run(request, _ask(groups, scheduler, request, group_ids))
    else:
        request.reply({"throttle_time": NO_THROTTLE_MS, "results": []})


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


API = Api(key=ApiKey.DELETE_GROUPS, versions=range(3), handle=handle)
