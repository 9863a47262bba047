"""ListGroups (16), v0-5: every group of this broker's coordinators.

Version notes: v4+ filters by and shows states (KIP-518), v5+ types (KIP-848).
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ListGroups
from ottla.core.groups.effects import ListedGroup, ListResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks every coordinator, and answers with what they have between them, in pieces."""
    message = request.message
    results: list[ListResult] = []

    def take(result: Result) -> None:
        assert isinstance(result, ListResult)
        results.append(result)

    states = tuple(dict.fromkeys(getattr(message, "states_filter", ())))
    types = tuple(dict.fromkeys(getattr(message, "types_filter", ())))
    for loop in node.groups.loops():
        loop.run(ListGroups(reply_to=node.groups.wait_for(take, request), states=states, types=types))
    error = next((result.error for result in results if result.error is not ErrorCode.NONE), ErrorCode.NONE)
    groups = (_group(group) for result in results for group in result.groups)
    node.cluster.scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "error_code": error, "groups": groups}))


def _group(group: ListedGroup) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "protocol_type": group.protocol_type,
        "group_state": group.state,
        "group_type": group.group_type,
    }


API = Api(key=16, versions=range(6), handle=handle)
