"""Replays the records of the cluster metadata's log; those of a transaction when it has ended (KIP-868).

Apache Kafka's controller writes large changes as transactions of several batches. One that was aborted, or never ended, has no effect.
"""

from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import AbortTransaction, BeginTransaction, EndTransaction, MetadataRecord, TransactionMark


class MetadataReplay:
    """Replays a log into cluster metadata, one record after another."""

    def __init__(self, cluster_metadata: ClusterMetadata) -> None:
        self._cluster_metadata = cluster_metadata
        self._pending: list[MetadataRecord] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a transaction has begun and not ended: it must be aborted before other records are appended."""
        return self._pending is not None

    def replay(self, record: MetadataRecord | TransactionMark) -> None:
        """Replay the next record, or keep it until its transaction ends. Raises LookupError for an unknown topic or partition."""
        match record:
            case BeginTransaction():
                self._pending = []
            case EndTransaction():
                pending, self._pending = self._pending or [], None
                for one in pending:
                    self._cluster_metadata.replay(one)
            case AbortTransaction():
                self._pending = None
            case _:
                if self._pending is None:
                    self._cluster_metadata.replay(record)
                else:
                    self._pending.append(record)
