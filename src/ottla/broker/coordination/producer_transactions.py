"""Whether a producer's records may open its transaction in a partition's log (KIP-890; Kafka: `AddPartitionsToTxnManager`).

Without the check, records that come late, after their transaction was aborted, would hold the last stable offset for ever. Check and append
run in one turn of the event loop, so that nothing comes between them.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.coordination.transactions import TransactionalIds
from ottla.coordinator.effects import Producer
from ottla.log.append import LogRefusal
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12

_NOT_IN_IT: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})
_NOT_AVAILABLE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


def is_open(log: PartitionLog, producer_id: int, epoch: int) -> bool:
    """Whether the transaction has records in a log already, or is of an older epoch, which the log itself refuses."""
    entry = log.producers.get(producer_id)
    return entry is not None and (epoch < entry.epoch or (epoch == entry.epoch and entry.transaction_first_offset >= 0))


class ProducerTransaction:
    """The transaction in which one Produce request writes. `version` is the request's."""

    def __init__(self, ids: TransactionalIds, transactional_id: str, producer: Producer, *, version: int) -> None:
        self._ids = ids
        self._transactional_id = transactional_id
        self._producer = producer
        self._version = version
        self._known: dict[TopicPartition, ErrorCode] = {}

    def check_all(self, partitions: Sequence[tuple[TopicPartition, PartitionLog]]) -> None:
        """Ask for many partitions at once: `refusal` then knows the answers, in this turn of the event loop."""
        unknown = [name for name, log in partitions if not self._is_open(log)]
        if unknown:
            self._known = self._ask(unknown)

    def forget(self) -> None:
        """Another turn of the event loop has begun."""
        self._known = {}

    def refusal(self, name: TopicPartition, log: PartitionLog, base_sequence: int) -> LogRefusal | None:
        """Why a batch may not be written to the partition; None where it may, and the log then checks it as any other."""
        if self._is_open(log):
            return None
        log.see_unverified(self._producer.id, self._producer.epoch, base_sequence, bumps_epoch=self._adds)
        if name not in self._known:
            self._known.update(self._ask([name]))
        error = self._known[name]
        return None if error is ErrorCode.NONE else self._refusal(error)

    @property
    def _adds(self) -> bool:
        return self._version >= FIRST_VERSION_THAT_ADDS

    def _is_open(self, log: PartitionLog) -> bool:
        return is_open(log, self._producer.id, self._producer.epoch)

    def _ask(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        knows_abortable = self._version >= FIRST_VERSION_WITH_ABORTABLE
        return self._ids.write_errors(self._transactional_id, self._producer, names, adds=self._adds, knows_abortable=knows_abortable)

    def _refusal(self, error: ErrorCode) -> LogRefusal:
        if error is ErrorCode.INVALID_PRODUCER_EPOCH:
            return LogRefusal(error, "Producer attempted to produce with an old epoch.")
        if error in _NOT_IN_IT:
            return LogRefusal(error, "Partition was not added to the transaction")
        if error in _NOT_AVAILABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not self._adds):
            message = "Unable to verify the partition has been added to the transaction. Underlying error: "
            return LogRefusal(ErrorCode.NOT_ENOUGH_REPLICAS, message + error.name)
        return LogRefusal(error, f"The transaction coordinator refused the producer: {error.name}")
