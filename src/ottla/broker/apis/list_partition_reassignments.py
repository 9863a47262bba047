"""ListPartitionReassignments (46), v0: reassignments that are under way; there never is one.

The brokers of a process share the logs: a reassignment (AlterPartitionReassignments) is complete when its response is sent. Topics and
partitions that do not exist are left out, as by Apache Kafka.
"""

from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey


def handle(request: Request) -> None:
    """Answer with no reassignment."""
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "error_message": None, "topics": ()})


API = Api(key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=range(1), handle=handle)
