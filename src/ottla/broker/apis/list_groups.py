"""ListGroups (16), v0-5: every group of this broker's coordinators.

Version notes: v4+ filters by and shows states (KIP-518), v5+ types (KIP-848).
"""

from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ListGroups
from ottla.core.groups.effects import ListResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks every coordinator, and answers with what they have between them."""
    message = request.message
    groups: list[dict[str, Any]] = []
    errors: list[ErrorCode] = []

    def take(result: Result) -> None:
        assert isinstance(result, ListResult)
        if result.error is not ErrorCode.NONE:
            errors.append(result.error)
        for group in result.groups:
            groups.append(
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "group_state": group.state,
                    "group_type": group.group_type,
                }
            )

    states = tuple(getattr(message, "states_filter", ()))
    types = tuple(getattr(message, "types_filter", ()))
    for loop in node.groups.loops():
        loop.run(ListGroups(reply_to=node.groups.wait_for(take, request), states=states, types=types))
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": errors[0] if errors else ErrorCode.NONE, "groups": groups})


API = Api(key=16, versions=range(6), handle=handle)
