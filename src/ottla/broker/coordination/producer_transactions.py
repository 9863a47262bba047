"""Whether a producer's records may open its transaction in a partition's log (KIP-890; Kafka: `AddPartitionsToTxnManager`).

Without the check, records that come late, after their transaction was aborted, would hold the last stable offset for ever. Check and append
run in one turn of the event loop, so that nothing comes between them.
"""

from collections.abc import Sequence
from typing import Final

from ottla.broker.coordination.transactions import TransactionalIds
from ottla.log.append import LogRefusal
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.transactions.commands import AddPartitions, PartitionsResult, VerifyPartitions

FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_ADDS: Final = 12

_NOT_AVAILABLE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})


def is_open(log: PartitionLog, producer_id: int, epoch: int) -> bool:
    """Whether the transaction has records in a log already, or is of an older epoch, which the log itself refuses."""
    entry = log.producers.get(producer_id)
    return entry is not None and (epoch < entry.epoch or (epoch == entry.epoch and entry.transaction_first_offset >= 0))


class ProducerTransaction:
    """The transaction in which one Produce request writes. `version` is the request's."""

    def __init__(self, ids: TransactionalIds, transactional_id: str, *, producer_id: int, producer_epoch: int, version: int) -> None:
        self._ids = ids
        self._transactional_id = transactional_id
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._version = version
        self._known: dict[TopicPartition, LogRefusal | None] = {}

    def check_all(self, partitions: Sequence[tuple[TopicPartition, PartitionLog]]) -> None:
        """Ask for many partitions at once: `refusal` then knows the answers, in this turn of the event loop."""
        unknown = [name for name, log in partitions if not self._is_open(log)]
        if unknown:
            self._known = self._ask(unknown)

    def forget(self) -> None:
        """Another turn of the event loop has begun."""
        self._known = {}

    def refusal(self, name: TopicPartition, log: PartitionLog) -> LogRefusal | None:
        """Why the partition may not be written; None where it may."""
        if self._is_open(log):
            return None
        if name not in self._known:
            self._known.update(self._ask([name]))
        return self._known[name]

    def _is_open(self, log: PartitionLog) -> bool:
        return is_open(log, self._producer_id, self._producer_epoch)

    def _ask(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, LogRefusal | None]:
        adds = self._version >= FIRST_VERSION_THAT_ADDS

        def command(reply_to: int) -> AddPartitions | VerifyPartitions:
            named = {"transactional_id": self._transactional_id, "partitions": names, "reply_to": reply_to}
            producer = {"producer_id": self._producer_id, "producer_epoch": self._producer_epoch}
            return AddPartitions(**named, **producer, bumps_epoch=True) if adds else VerifyPartitions(**named, **producer)  # type: ignore[arg-type]

        result = self._ids.ask(self._transactional_id, command)
        assert isinstance(result, PartitionsResult)
        of_all = self._of_all(result.error)
        return {name: self._missing() if name in result.missing else of_all for name in names}

    def _of_all(self, error: ErrorCode) -> LogRefusal | None:
        if error is ErrorCode.NONE:
            return None
        if error is ErrorCode.PRODUCER_FENCED:
            return LogRefusal(ErrorCode.INVALID_PRODUCER_EPOCH, "Producer attempted to produce with an old epoch.")
        if error in _NOT_AVAILABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < FIRST_VERSION_THAT_ADDS):
            message = "Unable to verify the partition has been added to the transaction. Underlying error: "
            return LogRefusal(ErrorCode.NOT_ENOUGH_REPLICAS, message + error.name)
        return LogRefusal(error, f"The transaction coordinator refused the producer: {error.name}")

    def _missing(self) -> LogRefusal:
        knows_abortable = self._version >= FIRST_VERSION_WITH_ABORTABLE
        error = ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
        return LogRefusal(error, "Partition was not added to the transaction")
