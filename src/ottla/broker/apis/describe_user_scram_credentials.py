"""DescribeUserScramCredentials (50), v0: who may log in with SCRAM, by mechanism, with iterations (KIP-554); no salt and no key."""

from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.scram_credentials import described_scram
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, cluster_metadata: ClusterMetadata) -> None:
    """Answer with one result a user."""
    users = request.message.users
    names = [each.name for each in users] if users else None
    results = [
        {
            "user": name,
            "error_code": ErrorCode.NONE if error is None else error.error,
            "error_message": None if error is None else error.message,
            "credential_infos": [{"mechanism": mechanism, "iterations": iterations} for mechanism, iterations in infos],
        }
        for name, error, infos in described_scram(cluster_metadata.scram, names)
    ]
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": ErrorCode.NONE, "error_message": None, "results": results})


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "error_message": None, "results": []})


API = Api(
    key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    versions=range(1),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.CLUSTER, refuse=_refuse),),
)
