"""One partition of a Fetch, as the request names it and as the response returns it; the numbers that stand for no session (KIP-227)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.core.errors import ErrorCode
from ottla.core.wire.fields import Buffer

if TYPE_CHECKING:
    from ottla.broker.logs.partition import Partition
    from ottla.storage.log.leader_epochs import EpochEnd
    from ottla.storage.log.transaction_index import AbortedTransaction

NO_SESSION: Final = 0
FULL_EPOCH: Final = 0
"""A full request that asks for a session."""
FINAL_EPOCH: Final = -1
"""A full request without a session."""

PartitionKey = tuple[str | bytes, int]
"""A topic's name or id, as the request names it, and the partition's number."""


class FetchedPartition:
    """One partition of a request. In a session it is kept, with the offsets of the last response (-1: none yet)."""

    __slots__ = (
        "bytes_max", "current_leader_epoch", "high_watermark", "key", "last_fetched_epoch", "log_start_offset", "offset", "partition",
        "topic_name",
    )  # fmt: skip

    def __init__(self, key: PartitionKey, current_leader_epoch: int, offset: int, last_fetched_epoch: int, bytes_max: int) -> None:
        self.key = key
        self.offset = offset
        self.bytes_max = bytes_max
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = self.log_start_offset = -1
        self.topic_name: str | None = None
        self.partition: Partition | None = None

    def update(self, asked: "FetchedPartition") -> None:
        """Take the position and limits of a later request."""
        self.offset = asked.offset
        self.bytes_max = asked.bytes_max
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def record_sent(self, high_watermark: int, log_start_offset: int, *, is_error: bool) -> bool:
        """Keep the offsets of a response; return whether they differ from the last ones, as they always do after an error."""
        is_changed = is_error or high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        self.high_watermark = -1 if is_error else high_watermark
        self.log_start_offset = log_start_offset
        return is_changed


class FetchPartitionData:
    """One partition of a response. `aborted` is None where it was not requested; `diverging` is where the client's log leaves ours."""

    __slots__ = ("aborted", "diverging", "error", "high_watermark", "last_stable_offset", "log_start_offset", "part", "records")

    def __init__(
        self,
        part: FetchedPartition,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: "Sequence[AbortedTransaction] | None" = None,
    ) -> None:
        self.part = part
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.records: Buffer = b""
        self.diverging: EpochEnd | None = None
