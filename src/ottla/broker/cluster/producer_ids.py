"""Producer ids: reserved in blocks in the log of the cluster metadata, given out one by one. Kafka's ProducerIdManager."""

from ottla.broker.metadata.metadata_log import MetadataLog


class ProducerIds:
    """One for all brokers of a process; `node_id`: the broker in whose name blocks are reserved."""

    def __init__(self, metadata_log: MetadataLog, node_id: int) -> None:
        self._metadata_log = metadata_log
        self._node_id = node_id
        self._next = self._end = 0

    def next(self) -> int:
        """A producer id that no producer of this cluster ever had. Raises StorageError."""
        if self._next == self._end:
            cluster_metadata = self._metadata_log.cluster_metadata
            first = cluster_metadata.next_producer_id
            self._metadata_log.append([cluster_metadata.next_producer_block(self._node_id)])
            self._next, self._end = first, cluster_metadata.next_producer_id
        self._next += 1
        return self._next - 1
