"""ConsumerGroupHeartbeat (68), v0-1: refused, since there are no groups of the consumer protocol (KIP-848) yet.

It is advertised nevertheless, as by Apache Kafka with that protocol disabled: librdkafka waits without an error while no broker
advertises the API.
"""

from ottla.broker.network.dispatch import CONSUMER_PROTOCOL, MissingFeatures
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, missing_features: MissingFeatures) -> None:
    """Answer UNSUPPORTED_VERSION."""
    missing_features.report(CONSUMER_PROTOCOL, request)
    message = "Ottla does not support the consumer group protocol (KIP-848) yet: set group.protocol=classic."
    _answer(request, ErrorCode.UNSUPPORTED_VERSION, message)


def _answer(request: Request, error: ErrorCode, message: str | None = None) -> None:
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "error_code": error,
            "error_message": message,
            "member_id": None,
            "member_epoch": 0,
            "heartbeat_interval": 0,
            "assignment": None,
        }
    )


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=range(2),
    handle=handle,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_answer),),
)
