"""Decides about changes of the cluster's features (UpdateFeatures): the new levels, or the error with Kafka's message."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.config import shown
from ottla.metadata.cluster_metadata import GROUP_VERSION, ClusterMetadata
from ottla.metadata.records import FeatureLevelRecord, MetadataRecord
from ottla.protocol.errors import ApiError, ErrorCode

SUPPORTED_FEATURES: Final = {GROUP_VERSION: (0, 1), "transaction.version": (0, 2)}
"""The lowest and highest level by feature."""


UPGRADE: Final = 1
UPGRADE_TYPES: Final = range(1, 4)
"""What a request allows: an upgrade, a safe downgrade, an unsafe one; other numbers are refused."""


class FeatureUpdate(NamedTuple):
    """The requested level of one feature."""

    feature: str
    level: int
    upgrade_type: int


def update_features(cluster_metadata: ClusterMetadata, updates: Sequence[FeatureUpdate], node_id: int) -> list[MetadataRecord] | ApiError:
    """The records that give the features these levels; the first error refuses all. Of two updates of a feature the last one holds."""
    records: list[MetadataRecord] = []
    for update in {update.feature: update for update in updates}.values():
        problem = _problem(cluster_metadata, update, node_id)
        if problem is not None:
            return ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {shown(update.feature)}. {problem}",
            )
        records.append(FeatureLevelRecord(name=update.feature, level=update.level))
    return records


def _problem(cluster_metadata: ClusterMetadata, update: FeatureUpdate, node_id: int) -> str | None:
    """Why a feature cannot have the level, in Kafka's words and order; None when it can."""
    feature, level, upgrade_type = update
    if upgrade_type not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    low, high = SUPPORTED_FEATURES.get(feature, (0, 0))
    if level and feature not in SUPPORTED_FEATURES:
        return f"Local controller {node_id} does not support this feature."
    if level and not low <= level <= high:
        return f"Local controller {node_id} only supports versions {low}-{high}"
    current = cluster_metadata.features.get(feature, 0)
    if level < current and upgrade_type == UPGRADE:
        return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None if feature in SUPPORTED_FEATURES else f"Feature {shown(feature)} not found."
