"""ConsumerGroupHeartbeat (68), v0-1: refused, since there are no groups of the consumer protocol (KIP-848) yet.

It is advertised all the same, as by Apache Kafka where that protocol is switched off: librdkafka waits without an error as long as no
broker lists the API.
"""

from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.missing_features import CONSUMER_PROTOCOL
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers UNSUPPORTED_VERSION."""
    node.cluster.missing_features.report(CONSUMER_PROTOCOL, request)
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


API = Api(key=68, versions=range(2), handle=handle)
