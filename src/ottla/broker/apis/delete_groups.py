"""DeleteGroups (42), v0-2: removes groups that have no members, with their offsets."""

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import DeleteGroup
from ottla.core.groups.effects import DeleteResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks each group's coordinator, and answers when the last one has."""
    group_ids = request.message.groups_names
    errors: dict[int, ErrorCode] = {}

    def take(number: int, result: Result) -> None:
        assert isinstance(result, DeleteResult)
        errors[number] = result.error
        if len(errors) == len(group_ids):
            results = [{"group_id": group_id, "error_code": errors[number]} for number, group_id in enumerate(group_ids)]
            request.reply({"throttle_time": NO_THROTTLE_MS, "results": results})

    for number, group_id in enumerate(group_ids):
        node.groups.ask(group_id, DeleteGroup(reply_to=node.groups.wait_for(partial(take, number), request), group_id=group_id))
    if not group_ids:
        request.reply({"throttle_time": NO_THROTTLE_MS, "results": []})


API = Api(key=42, versions=range(3), handle=handle)
