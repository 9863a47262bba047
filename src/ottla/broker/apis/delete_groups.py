"""DeleteGroups (42), v0-2: removes groups that have no members, with their offsets."""

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.groups.commands import DeleteGroup
from ottla.core.groups.effects import DeleteResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks each group's coordinator, which answers before it returns."""
    results: list[dict[str, Any]] = []

    def take(group_id: str, result: Result) -> None:
        assert isinstance(result, DeleteResult)
        results.append({"group_id": group_id, "error_code": result.error})

    for group_id in request.message.groups_names:
        reply_to = node.groups.wait_for(partial(take, group_id))
        node.groups.ask(group_id, DeleteGroup(reply_to=reply_to, group_id=group_id))
    request.reply({"throttle_time": NO_THROTTLE_MS, "results": results})


API = Api(key=42, versions=range(3), handle=handle)
