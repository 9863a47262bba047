"""UpdateFeatures (57), v0-2: changes the level of the cluster's features: of group.version, with which consumer groups are on or off.

Version notes: v0 only raises levels (as in Kafka, allow_downgrade has no effect); v1+ says upgrade, safe or unsafe downgrade, and whether
to validate only; v2+ answers without a result for each feature.
"""

from typing import Any

from ottla.broker.cluster.brokers import Node
from ottla.broker.metadata_log import MetadataLog
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.metadata.features import UPGRADE, FeatureUpdate, update_features
from ottla.protocol.errors import ApiError, ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, metadata_log: MetadataLog, node: Node) -> None:
    """Change all features or none."""
    message, updates = request.message, request.message.feature_updates
    wanted = [FeatureUpdate(update.feature, update.max_version_level, getattr(update, "upgrade_type", UPGRADE)) for update in updates]
    records = update_features(metadata_log.cluster_metadata, wanted, node.id)
    if not isinstance(records, ApiError) and not getattr(message, "validate_only", False):
        try:
            metadata_log.append(records)
        except StorageError as error:
            records = ApiError(error.code, str(error))
    if isinstance(records, ApiError):
        _reply(request, records.error, records.message, ())
    else:
        _reply(request, ErrorCode.NONE, None, [update.feature for update in updates])


def _reply(request: Request, error: ErrorCode, message: str | None, features: Any) -> None:
    results = [{"feature": feature, "error_code": ErrorCode.NONE, "error_message": "NONE"} for feature in features]
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "error_message": message, "results": results})


def _refuse(request: Request, error: ErrorCode) -> None:
    _reply(request, error, None, ())


API = Api(
    key=ApiKey.UPDATE_FEATURES,
    versions=range(3),
    handle=handle,
    access=(Access(Operation.ALTER, ResourceType.CLUSTER, refuse=_refuse),),
)
