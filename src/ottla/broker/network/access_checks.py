"""Whether a session may do what its request asks for: the rights that each API declares, checked before its handler is called."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from ottla.broker.network.request import Access, Handler, Request, ServedApi
from ottla.protocol.wire.messages import request_decoder
from ottla.security.access import CLUSTER_NAME, REFUSAL, ResourceType


def checked(api: ServedApi) -> Handler:
    """The handler of an API behind the checks of its rights (`Access`): the only place where requests are refused as a whole or by item.

    Kafka's order: the rights as they are declared, before it is looked up whether anything exists.
    """
    rights = [access for access in api.access if access.refuse is not None]
    if not rights:
        return api.handle

    def handle(request: Request) -> None:
        message = request.message
        if api.decodes_itself:
            message = request_decoder(request.key, request.version)(request.buffer, request.body_at)
        for access in rights:
            array, is_array, _ = access.at.partition("[]")
            if access.or_cluster is not None and request.session.may(access.or_cluster, ResourceType.CLUSTER, log_if_denied=False):
                continue
            if is_array:
                request.message = _without_refused(request, access, array)
            elif not request.session.may(access.operation, access.resource, getattr(message, access.at) if access.at else CLUSTER_NAME):
                assert access.refuse is not None
                access.refuse(request, REFUSAL[access.resource])
                return
        api.handle(request)

    return handle


def _without_refused(request: Request, access: Access, array: str) -> Any:
    """The request's message with those items that the client may use; the response is completed with the others."""
    assert access.refuse is not None
    session, field = request.session, access.at.partition("[].")[2]
    may: dict[str, bool] = {}
    allowed: list[Any] = []
    refused: list[Any] = []
    for item in getattr(request.message, array):
        name = CLUSTER_NAME if access.resource is ResourceType.CLUSTER else getattr(item, field) if field else item
        if access.where is not None and getattr(item, access.where[0]) != access.where[1]:
            allowed.append(item)
            continue
        if name not in may:
            may[name] = session.may(access.operation, access.resource, name)
        (allowed if may[name] else refused).append(item)
    if refused:
        answers = [access.refuse(item, REFUSAL[access.resource]) for item in refused]
        earlier, key = request.amend, access.answers

        def amend(values: Mapping[str, Any]) -> Mapping[str, Any]:
            values = values if earlier is None else earlier(values)
            return {**values, key: chain(answers, values[key])}

        request.amend = amend
    return replace(request.message, **{array: tuple(allowed)})
