"""The commands of a transaction coordinator and their results, free of API versions: a difference between versions is a named field."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.coordinator.effects import Effects
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.transactions.records import NO_EPOCH, NO_PRODUCER_ID, TransactionRecord
from ottla.transactions.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """InitProducerId (22) with a transactional id. `producer_id` and `producer_epoch`: what the client has, -1 if it is new (v3+)."""

    reply_to: int
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn (24), AddOffsetsToTxn (25), and what Produce v12+ and TxnOffsetCommit v5+ add by themselves (`bumps_epoch`)."""

    reply_to: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    bumps_epoch: bool = False
    """Whether the client's epoch rises with each end of a transaction (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """AddPartitionsToTxn (24) with VerifyOnly: are these partitions in the open transaction?"""

    reply_to: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """EndTxn (26). `bumps_epoch`: v5+."""

    reply_to: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    bumps_epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransaction:
    """DescribeTransactions (65), one id."""

    reply_to: int
    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """ListTransactions (66) without its filters by state, producer and pattern, which the API handler applies."""

    reply_to: int


Request = InitProducerId | AddPartitions | VerifyPartitions | EndTxn | DescribeTransaction | ListTransactions


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTransaction:
    """All markers are written: the transaction that ended with this producer id and epoch is complete."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTimedOut:
    """Abort the transactions that are open for longer than their clients' `transaction.timeout.ms`. Runs at intervals."""


Command = Request | CompleteTransaction | AbortTimedOut


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerResult:
    """The answer to InitProducerId and EndTxn: the id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsResult:
    """The answer to AddPartitions and VerifyPartitions. `missing`: those that are not in the transaction; only for VerifyPartitions."""

    error: ErrorCode
    missing: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """One transactional id. `start_ms`: -1 where no transaction is open or ending."""

    error: ErrorCode
    transactional_id: str
    state: State = State.EMPTY
    timeout_ms: int = 0
    start_ms: int = -1
    last_update_ms: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsResult:
    """All ids of one coordinator, to be walked through once: each is described when its turn comes, for there may be a million."""

    error: ErrorCode
    transactions: Iterable[TransactionDescription] = ()


Result = ProducerResult | PartitionsResult | TransactionDescription | TransactionsResult


def error_result(command: Request, error: ErrorCode) -> Result:
    """The result of a request that failed."""
    match command:
        case InitProducerId() | EndTxn():
            return ProducerResult(error=error)
        case AddPartitions() | VerifyPartitions():
            return PartitionsResult(error=error)
        case DescribeTransaction():
            return TransactionDescription(error=error, transactional_id=command.transactional_id)
        case ListTransactions():
            return TransactionsResult(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersDue:
    """A transaction's outcome is decided and durable: a marker is to be written to each partition, then `CompleteTransaction` run."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool
    bumps_epoch: bool
    partitions: tuple[TopicPartition, ...]


TransactionEffects = Effects[TransactionRecord, Result, MarkersDue]
