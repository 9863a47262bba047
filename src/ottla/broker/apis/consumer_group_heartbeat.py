"""ConsumerGroupHeartbeat (68), v0-1: refused, since there are no groups of the consumer protocol (KIP-848) yet.

It is advertised nevertheless, as by Apache Kafka with that protocol disabled: librdkafka waits without an error while no broker
advertises the API.
"""

from ottla.broker.network.missing_features import CONSUMER_PROTOCOL, MissingFeatures
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey


def handle(request: Request, *, missing_features: MissingFeatures) -> None:
    """Answer UNSUPPORTED_VERSION."""
    missing_features.report(CONSUMER_PROTOCOL, request)
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "error_message": "Ottla does not support the consumer group protocol (KIP-848) yet: set group.protocol=classic.",
            "member_id": None,
            "member_epoch": 0,
            "heartbeat_interval": 0,
            "assignment": None,
        }
    )


API = Api(key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=range(2), handle=handle)
