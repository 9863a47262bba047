"""Many new topics with few appends: decided and encoded in pieces, then appended and replayed.

Other requests are served between the pieces, so that a name may be taken when the records are there: it is checked again before the append.
"""

from collections.abc import Generator
from typing import Final, NamedTuple

from ottla.broker.logs.checkpoint_deletions import CheckpointDeletions
from ottla.broker.metadata.metadata_log import MetadataLog
from ottla.core.errors import ApiError, ErrorCode, StorageError
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.records import MetadataRecord, encode
from ottla.core.metadata.topic_changes import create_topic, creation_refusal
from ottla.core.metadata.topics import NewTopic, Topic, metric_name

RECORDS_PER_APPEND: Final = 5_000
"""An append of so many records takes some 20 ms, and a sync."""
PIECE: Final = 128
"""So many records are encoded before other requests continue: about 0.5 ms."""


class _Decided(NamedTuple):
    """A topic that may be created: where its result goes, its records and their bytes."""

    place: int
    name: str
    records: list[MetadataRecord]
    values: list[bytes]


class TopicCreation:
    """The topics of one request; `results` has one item for each, final after `commit`."""

    def __init__(self, cluster_metadata: ClusterMetadata, metadata_log: MetadataLog, deletions: CheckpointDeletions) -> None:
        self.results: list[Topic | ApiError] = []
        self._cluster_metadata = cluster_metadata
        self._log = metadata_log
        self._deletions = deletions
        self._decided: list[_Decided] = []
        self._records = 0

    def add(self, new: NewTopic, topic_id: bytes) -> Generator[None, None, None]:
        """Decide about a topic and commit when there is enough."""
        records = create_topic(self._cluster_metadata, new, topic_id)
        if isinstance(records, ApiError):
            self.results.append(records)
            yield
            return
        values = []
        for at in range(0, len(records), PIECE):
            values += [encode(record) for record in records[at : at + PIECE]]
            yield
        self._decided.append(_Decided(len(self.results), new.name, records, values))
        self.results.append(_UNDECIDED)
        self._records += len(records)
        if self._records >= RECORDS_PER_APPEND:
            self.commit()
            yield

    def commit(self) -> None:
        """Create the topics that were decided: all of them, or none where the log cannot be written."""
        decided, self._decided, self._records = self._decided, [], 0
        kept: dict[str, _Decided] = {}
        for each in decided:
            other = kept.get(metric_name(each.name))
            refused = creation_refusal(self._cluster_metadata, each.name)
            if refused is None and other is not None:
                message = f"Topic '{each.name}' collides with existing topic: {other.name}"
                refused = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            if refused is None:
                kept[metric_name(each.name)] = each
            else:
                self.results[each.place] = refused
        try:
            for each in kept.values():
                self._deletions.write_for(each.name)
            records = [record for each in kept.values() for record in each.records]
            self._log.append_encoded(records, [value for each in kept.values() for value in each.values])
        except StorageError as error:
            for each in kept.values():
                self.results[each.place] = ApiError(error.code, str(error))
        else:
            for each in kept.values():
                self.results[each.place] = self._cluster_metadata.topics[each.name]


_UNDECIDED: Final = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "not committed")
