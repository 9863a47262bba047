"""AlterUserScramCredentials (51), v0: sets and removes how passwords of SCRAM are checked (KIP-554). The client salts and hashes them."""

from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.scram_credentials import Upsertion, alter_scram
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType
from ottla.security.sasl_server import scram_keys


def handle(request: Request, *, cluster_metadata: ClusterMetadata, metadata_log: MetadataLog) -> None:
    """Answer with one result a user; the good changes are one batch. Raises StorageError."""
    message = request.message
    results, records = alter_scram(
        cluster_metadata.scram,
        [(each.name, each.mechanism) for each in message.deletions],
        [Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password) for each in message.upsertions],
        scram_keys,
    )
    metadata_log.append(records)
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "results": [
                {
                    "user": name,
                    "error_code": ErrorCode.NONE if error is None else error.error,
                    "error_message": None if error is None else error.message,
                }
                for name, error in results.items()
            ],
        }
    )


def _refuse(request: Request, error: ErrorCode) -> None:
    message = request.message
    users = dict.fromkeys([each.name for each in message.deletions] + [each.name for each in message.upsertions])
    results = [{"user": name, "error_code": error, "error_message": None} for name in users]
    request.reply({"throttle_time": NO_THROTTLE_MS, "results": results})


API = Api(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=range(1),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
