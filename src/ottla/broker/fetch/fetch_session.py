"""One fetch session as its client sees it: partitions, epoch, and the offsets of the last response (KIP-227)."""

from typing import Final

from ottla.broker.protocol.fetch_partition import FULL_EPOCH, FetchedPartition, PartitionKey

_EPOCH_MAX: Final = 2**31 - 1


class FetchSession:
    """One client's session: `partitions` in the order in which they are read next, `epoch` the one of its next request."""

    __slots__ = ("counted", "created_ms", "epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, partitions: dict[PartitionKey, FetchedPartition], now_ms: int) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.epoch = next_epoch(FULL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.counted = len(partitions)

    def move_to_back(self, part: FetchedPartition) -> None:
        """Read a partition, which had records, after all others next time."""
        if self.partitions.pop(part.key, None) is not None:
            self.partitions[part.key] = part


class FetchContext:
    """What one request reads: with a `session` if it is incremental, and the epoch of the session unless another request follows."""

    __slots__ = ("epoch", "partitions", "session", "uses_topic_ids", "wants_session")

    def __init__(
        self, partitions: dict[PartitionKey, FetchedPartition], uses_topic_ids: bool, session: FetchSession | None, wants_session: bool
    ) -> None:
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.session = session
        self.epoch = 0 if session is None else session.epoch
        self.wants_session = wants_session

    @property
    def is_superseded(self) -> bool:
        """Whether another request of the same session arrived while this one waited."""
        return self.session is not None and self.session.epoch != self.epoch


def next_epoch(epoch: int) -> int:
    """The epoch after this one; 0 and below are never reached again."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1
