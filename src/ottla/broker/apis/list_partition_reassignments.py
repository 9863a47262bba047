"""ListPartitionReassignments (46), v0: reassignments that are under way; there never is one.

The brokers of a process share the logs: a reassignment (AlterPartitionReassignments) is complete when its response is sent. Topics and
partitions that do not exist are left out, as by Apache Kafka.
"""

from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request) -> None:
    """Answer with no reassignment."""
    _answer(request, ErrorCode.NONE)


def _answer(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "error_message": None, "topics": ()})


API = Api(
    key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    versions=range(1),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.CLUSTER, refuse=_answer),),
)
