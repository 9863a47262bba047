"""DeleteGroups (42), v0-2: removes groups that have no members, with their offsets."""

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import DeleteGroup
from ottla.core.groups.effects import DeleteResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks each group's coordinator, in pieces, and answers when the last one has; a group that is named twice counts once, as in Kafka."""
    group_ids = tuple(dict.fromkeys(request.message.groups_names))
    if group_ids:
        node.cluster.scheduler.run(request, _ask(node, request, group_ids))
    else:
        request.reply({"throttle_time": NO_THROTTLE_MS, "results": []})


def _ask(node: "Node", request: Request, group_ids: tuple[str, ...]) -> Work:
    errors: dict[str, ErrorCode] = {}

    def take(group_id: str, result: Result) -> None:
        assert isinstance(result, DeleteResult)
        errors[group_id] = result.error
        if len(errors) == len(group_ids):
            results = ({"group_id": group_id, "error_code": errors[group_id]} for group_id in group_ids)
            node.cluster.scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": results}))

    for group_id in group_ids:
        reply_to = node.groups.wait_for(partial(take, group_id), request)
        node.groups.ask(group_id, DeleteGroup(reply_to=reply_to, group_id=group_id))
        yield


API = Api(key=42, versions=range(3), handle=handle)
