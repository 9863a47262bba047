"""ApiVersions (18), v0-4: the APIs and versions that this broker serves.

Version notes: an unsupported version is answered in v0 with UNSUPPORTED_VERSION and the whole list (KIP-511), so that a client can fall
back; v3+ carries the client's software name and version, which are validated, and the features of the cluster: group.version, that of
consumer groups (KIP-848), and transaction.version (KIP-890), unless their level is 0. v3 omits supported features with minimum 0.
"""

import re
from functools import lru_cache

from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import response_encoder

ServedVersions = tuple[int, int, int]
"""Key, lowest and highest version of an API."""
_SUPPORTED = [{"name": name, "min_version": low, "max_version": high} for name, (low, high) in SUPPORTED_FEATURES.items()]
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, *, cluster_metadata: ClusterMetadata, served_versions: tuple[ServedVersions, ...]) -> None:
    """Answer with the versions of every API file."""
    error = ErrorCode.NONE
    if request.version not in API.versions:
        error = ErrorCode.UNSUPPORTED_VERSION
        request.version = 0
    elif request.version >= 3:
        name, version = request.message.client_software_name, request.message.client_software_version
        if _SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version):
            request.session.software_name, request.session.software_version = name, version
        else:
            error = ErrorCode.INVALID_REQUEST
    authentication = request.session.authentication
    if authentication is not None and error is ErrorCode.NONE:
        authentication.versions_answered()
    features = tuple((name, cluster_metadata.features[name]) for name in SUPPORTED_FEATURES if cluster_metadata.features.get(name))
    request.reply_body([_body(request.version, error, served_versions, features, cluster_metadata.features_epoch)])


@lru_cache(maxsize=64)
def _body(
    version: int, error: ErrorCode, served_versions: tuple[ServedVersions, ...], features: tuple[tuple[str, int], ...], features_epoch: int
) -> bytes:
    """The response: the same for every client until a feature changes, and each of them asks for it first."""
    keys = [{"api_key": key, "min_version": lowest, "max_version": highest} for key, lowest, highest in served_versions]
    return response_encoder(API.key, version)(
        {
            "error_code": error,
            "api_keys": [] if error is ErrorCode.INVALID_REQUEST else keys,
            "throttle_time": NO_THROTTLE_MS,
            "supported_features": _SUPPORTED if version >= 4 else [],
            "finalized_features_epoch": features_epoch,
            "finalized_features": [{"name": name, "min_version_level": level, "max_version_level": level} for name, level in features],
        }
    )


API = Api(key=ApiKey.API_VERSIONS, versions=range(5), handle=handle, access=())
