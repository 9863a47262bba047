"""ListGroups (16), v0-5: every group of this broker's coordinators.

Version notes: v4+ filters by and shows states (KIP-518), v5+ types (KIP-848).
"""

from typing import Any

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.groups.commands import ListedGroup, ListGroups, ListResult, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, groups: GroupRouter, scheduler: RequestScheduler) -> None:
    """Ask every coordinator and answer with what they have between them, in pieces."""
    message = request.message
    results: list[ListResult] = []

    def take(result: Result) -> None:
        assert isinstance(result, ListResult)
        results.append(result)

    states = tuple(dict.fromkeys(getattr(message, "states_filter", ())))
    types = tuple(dict.fromkeys(getattr(message, "types_filter", ())))
    for loop in groups.coordinators.all():
        loop.run(ListGroups(reply_to=groups.expect_reply(take, request), states=states, types=types))
    error = next((result.error for result in results if result.error is not ErrorCode.NONE), ErrorCode.NONE)
    session = request.session
    sees_all = session.may(Operation.DESCRIBE, ResourceType.CLUSTER, log_if_denied=False)
    listed = (
        _group(group)
        for result in results
        for group in result.groups
        if sees_all or session.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, log_if_denied=False)
    )
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "error_code": error, "groups": listed}))


def _group(group: ListedGroup) -> dict[str, Any]:
    return {
        "group_id": group.group_id,
        "protocol_type": group.protocol_type,
        "group_state": group.state,
        "group_type": group.group_type,
    }


API = Api(
    key=ApiKey.LIST_GROUPS,
    versions=range(6),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.GROUP, or_cluster=Operation.DESCRIBE),),
)
