"""The transaction coordinator of one partition of `__transaction_state` (KIP-98, KIP-890; Kafka: `TransactionCoordinator`).

How a command's effects become durable is the same for every kind of coordinator (`coordinator/coordinator.py`). An end is two of them: the
outcome is decided by a record (Prepare*) and its client answered; the event `MarkersDue` has the broker write the markers; then
`CompleteTransaction` comes. Meanwhile every other request of the id gets CONCURRENT_TRANSACTIONS.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from ottla.config import BrokerConfig
from ottla.coordinator.coordinator import AppendFailed, Coordinator, CoordinatorStatus
from ottla.coordinator.effects import NO_EFFECTS, Context, Effects, Reply
from ottla.coordinator.loop import CoordinatorService
from ottla.coordinator.timers import Timer, Timers
from ottla.metadata.topics import TRANSACTION_STATE
from ottla.protocol.coordinator_records import TransactionValue
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.compression import Codec
from ottla.transactions.commands import (
    AbortTimedOut,
    AddPartitions,
    Command,
    CompleteTransaction,
    DescribeTransaction,
    EndTxn,
    InitProducerId,
    ListTransactions,
    MarkersDue,
    PartitionsResult,
    ProducerResult,
    Request,
    Result,
    TransactionDescription,
    TransactionEffects,
    TransactionsResult,
    VerifyPartitions,
    error_result,
)
from ottla.transactions.open_transactions import OpenTransactions
from ottla.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    STATUS_AT,
    Stored,
    TransactionRecord,
    TransactionReducer,
    encode_records,
    grouped,
    partitions_of,
    state_of,
    value_of,
)
from ottla.transactions.states import ENDED, FIRST_VERSION, MAY_COME_FROM, PREPARED, SECOND_VERSION, Ending, State

EPOCH_MAX: Final = 2**15 - 1
EXHAUSTED_EPOCH: Final = EPOCH_MAX - 1
"""From here on a producer gets a new id: the last epoch is kept for fencing it."""
_EXPIRY: Final = "expiry"
_SWEPT_MAX: Final = 100
"""So many transactions are aborted, or ids looked at, at once; the rest follow in the next iterations of the event loop."""
_FIRST, _SECOND = 0, 2
"""Transaction versions, as records name them: clients whose epoch stays, and those whose epoch rises with each end."""


class ProducerIdSource(Protocol):
    """Gives producer ids."""

    def next(self) -> int:
        """An id that no producer of the cluster ever had. Raises StorageError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker settings of transactions, by Kafka's names."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expire_interval_ms: int = 3_600_000

    @classmethod
    def from_config(cls, config: BrokerConfig) -> "TransactionSettings":
        """The settings of a broker."""
        return cls(
            max_timeout_ms=config.number("transaction.max.timeout.ms"),
            id_expiration_ms=config.number("transactional.id.expiration.ms"),
            abort_interval_ms=config.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expire_interval_ms=config.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        )


class Transaction:
    """One transactional id as the log has it.

    `last_epoch`: the epoch before the latest bump, by which a repeated request is known; -1 after loading.
    """

    __slots__ = ("last_epoch", "stored", "transactional_id")

    def __init__(self, transactional_id: str, stored: Stored, last_epoch: int = NO_EPOCH) -> None:
        self.transactional_id = transactional_id
        self.stored = stored
        self.last_epoch = last_epoch

    @property
    def value(self) -> TransactionValue:
        """Its producer, state and partitions."""
        if isinstance(self.stored, bytes):
            self.stored = value_of(self.stored)
        return self.stored

    @property
    def state(self) -> State:
        """Its state."""
        return state_of(self.stored)


class TransactionsState:
    """What one coordinator holds."""

    __slots__ = ("counts", "is_sweeping", "opened", "settings", "timers", "transactions", "unchecked")

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.timers = Timers()
        self.transactions: dict[str, Transaction] = {}
        self.opened = OpenTransactions()
        self.counts = dict.fromkeys(State, 0)
        """Ids by their state."""
        self.is_sweeping = False
        """Whether a sweep found more than it may abort at once."""
        self.unchecked: list[str] = []
        """Ids at which a check for expired ones, which is under way, has not looked yet."""

    def clear(self) -> None:
        """Forget all ids."""
        self.transactions.clear()
        self.opened.clear()
        self.counts = dict.fromkeys(State, 0)
        self.is_sweeping = False
        self.unchecked = []

    def count(self, transactional_id: str, before: State | None, after: Stored | None) -> None:
        """An id has another value; None: it is not known."""
        new = None if after is None else state_of(after)
        if before is new:
            return
        if before is not None:
            self.counts[before] -= 1
            if before is State.ONGOING:
                self.opened.end(transactional_id)
        if new is not None:
            self.counts[new] += 1
            if isinstance(after, TransactionValue) and new is State.ONGOING:
                start_ms, timeout_ms = after.transaction_start_timestamp_ms, after.transaction_timeout_ms
                self.opened.begin(transactional_id, start_ms=start_ms, timeout_ms=timeout_ms)


_Context = Context[TransactionsState, TransactionRecord, Result, MarkersDue]


class TransactionCoordinator(Coordinator[Command, TransactionRecord, Result, MarkersDue, dict[str, Stored]]):
    """Coordinates the transactional ids that belong to `partition`."""

    kind = "transaction"
    topic = TRANSACTION_STATE
    key_name = "transactional_id"
    periodic_command = AbortTimedOut()

    encode = staticmethod(encode_records)

    __slots__ = ("_producer_ids", "leader_epoch", "state")

    def __init__(
        self, settings: TransactionSettings, producer_ids: ProducerIdSource, *, partition: int = 0, node_id: int = 1, leader_epoch: int = 0
    ) -> None:
        self.state = TransactionsState(settings)
        self.leader_epoch = leader_epoch
        self._producer_ids = producer_ids
        super().__init__(self.state.timers, partition=partition, node_id=node_id)

    # Requests

    def _init_producer_id(self, context: _Context, command: InitProducerId) -> None:
        settings, known_id, known_epoch = self.state.settings, command.producer_id, command.producer_epoch
        if not 0 < command.timeout_ms <= settings.max_timeout_ms:
            context.reply(command.reply_to, ProducerResult(error=ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        found = self.state.transactions.get(command.transactional_id)
        if found is None:
            self._begin_producer(context, command, last_epoch=NO_EPOCH, previous_id=None)
            return
        value, epoch = found.value, found.value.producer_epoch
        is_replaced = known_id != NO_PRODUCER_ID and not (
            known_id == value.producer_id or (known_id == value.previous_producer_id and known_epoch >= EXHAUSTED_EPOCH)
        )
        if found.state in PREPARED:
            context.reply(command.reply_to, ProducerResult(error=ErrorCode.CONCURRENT_TRANSACTIONS))
        elif is_replaced:
            context.reply(command.reply_to, ProducerResult(error=ErrorCode.PRODUCER_FENCED))
        elif found.state is State.ONGOING:
            # The client asks again, and gets its epoch when the transaction of its predecessor, or its own, is aborted.
            is_fenced = self._fence(context, found)
            error = ErrorCode.CONCURRENT_TRANSACTIONS if is_fenced else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            context.reply(command.reply_to, ProducerResult(error=error))
        elif epoch >= EXHAUSTED_EPOCH and known_epoch in (NO_EPOCH, epoch):
            last_epoch = NO_EPOCH if known_epoch == NO_EPOCH else epoch
            self._begin_producer(context, command, last_epoch=last_epoch, previous_id=value.producer_id)
        elif known_epoch in (NO_EPOCH, epoch):
            last_epoch = NO_EPOCH if known_epoch == NO_EPOCH else epoch
            self._renew_producer(context, found, command, epoch=epoch + 1, last_epoch=last_epoch)
        elif known_epoch == found.last_epoch:
            self._renew_producer(context, found, command, epoch=epoch, last_epoch=found.last_epoch)
        else:
            context.reply(command.reply_to, ProducerResult(error=ErrorCode.PRODUCER_FENCED))

    def _begin_producer(self, context: _Context, command: InitProducerId, *, last_epoch: int, previous_id: int | None) -> None:
        """The id gets a new producer: its first one, or one in place of a producer whose epochs are used up."""
        try:
            producer_id = self._producer_ids.next()
        except StorageError:
            context.reply(command.reply_to, ProducerResult(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        value = TransactionValue(
            producer_id=producer_id,
            previous_producer_id=producer_id if previous_id is None else previous_id,
            producer_epoch=0,
            transaction_timeout_ms=command.timeout_ms,
            transaction_status=State.EMPTY,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=context.now_ms,
            transaction_start_timestamp_ms=-1,
        )
        self._write(context, command.transactional_id, value, last_epoch)
        self._answer_init(context, command, value)

    def _renew_producer(self, context: _Context, found: Transaction, command: InitProducerId, *, epoch: int, last_epoch: int) -> None:
        value = replace(
            found.value,
            previous_producer_id=found.value.producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=command.timeout_ms,
            transaction_status=State.EMPTY,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=context.now_ms,
            transaction_start_timestamp_ms=-1,
        )
        self._write(context, found.transactional_id, value, last_epoch)
        self._answer_init(context, command, value)

    def _answer_init(self, context: _Context, command: InitProducerId, value: TransactionValue) -> None:
        context.log(
            f"Initialized transactionalId {command.transactional_id} with producerId {value.producer_id} and producer epoch"
            f" {value.producer_epoch} on partition {TRANSACTION_STATE}-{self.partition}"
        )
        answer = ProducerResult(error=ErrorCode.NONE, producer_id=value.producer_id, producer_epoch=value.producer_epoch)
        context.reply(command.reply_to, answer)

    def _add_partitions(self, context: _Context, command: AddPartitions) -> None:
        found = self.state.transactions.get(command.transactional_id)
        error = _refusal(found, command)
        if found is None or error is not ErrorCode.NONE:
            context.reply(command.reply_to, PartitionsResult(error=error))
            return
        is_open = found.state is State.ONGOING
        partitions = dict.fromkeys(partitions_of(found.value) if is_open else ())
        known = len(partitions)
        partitions.update(dict.fromkeys(command.partitions))
        if not is_open or len(partitions) > known:
            value = replace(
                found.value,
                previous_producer_id=found.value.producer_id,
                transaction_status=State.ONGOING,
                transaction_partitions=grouped(partitions),
                transaction_last_update_timestamp_ms=context.now_ms,
                transaction_start_timestamp_ms=found.value.transaction_start_timestamp_ms if is_open else context.now_ms,
                client_transaction_version=_SECOND if command.bumps_epoch else _FIRST,
            )
            self._write(context, found.transactional_id, value, found.last_epoch)
        context.reply(command.reply_to, PartitionsResult(error=ErrorCode.NONE))

    def _verify_partitions(self, context: _Context, command: VerifyPartitions) -> None:
        found = self.state.transactions.get(command.transactional_id)
        error = _refusal(found, command)
        if found is None or error is not ErrorCode.NONE:
            context.reply(command.reply_to, PartitionsResult(error=error))
            return
        known = set(partitions_of(found.value)) if found.state is State.ONGOING else set[TopicPartition]()
        context.reply(command.reply_to, PartitionsResult(error=ErrorCode.NONE, missing=frozenset(command.partitions) - known))

    def _end(self, context: _Context, command: EndTxn) -> None:
        found = self.state.transactions.get(command.transactional_id)
        outcome = ErrorCode.INVALID_PRODUCER_ID_MAPPING if found is None else _outcome(found, command)
        if found is None or isinstance(outcome, ErrorCode):
            assert isinstance(outcome, ErrorCode)
            context.reply(command.reply_to, ProducerResult(error=outcome))
            return
        value = found.value
        if outcome is not Ending.REPEAT:
            prepared = self._prepare(context, found, commits=command.commits, bumps_epoch=command.bumps_epoch)
            if prepared is None:
                context.reply(command.reply_to, ProducerResult(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
                return
            value = _completed(prepared, context.now_ms)
        answer = ProducerResult(error=ErrorCode.NONE, producer_id=value.producer_id, producer_epoch=value.producer_epoch)
        context.reply(command.reply_to, answer)

    def _describe(self, context: _Context, command: DescribeTransaction) -> None:
        found = self.state.transactions.get(command.transactional_id)
        if found is None:
            context.reply(command.reply_to, error_result(command, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
        else:
            context.reply(command.reply_to, _description(found))

    def _list(self, context: _Context, command: ListTransactions) -> None:
        listed = map(_description, tuple(self.state.transactions.values()))
        context.reply(command.reply_to, TransactionsResult(error=ErrorCode.NONE, transactions=listed))

    # Ends

    def _prepare(self, context: _Context, found: Transaction, *, commits: bool, bumps_epoch: bool) -> TransactionValue | None:
        """Decide how a transaction ends; its value as it is then. None where no producer id can be had."""
        value, epoch, next_id = found.value, found.value.producer_epoch, NO_PRODUCER_ID
        last_epoch = found.last_epoch
        if bumps_epoch and epoch < EPOCH_MAX:
            if epoch >= EXHAUSTED_EPOCH:
                try:
                    next_id = self._producer_ids.next()
                except StorageError:
                    return None
            last_epoch, epoch = epoch, epoch + 1
        partitions = partitions_of(value) if found.state is State.ONGOING else []
        prepared = replace(
            value,
            previous_producer_id=value.producer_id,
            next_producer_id=next_id,
            producer_epoch=epoch,
            transaction_status=State.PREPARE_COMMIT if commits else State.PREPARE_ABORT,
            transaction_partitions=grouped(partitions),
            transaction_last_update_timestamp_ms=context.now_ms,
            transaction_start_timestamp_ms=value.transaction_start_timestamp_ms if found.state is State.ONGOING else context.now_ms,
            client_transaction_version=_SECOND if bumps_epoch else _FIRST,
        )
        self._write(context, found.transactional_id, prepared, last_epoch)
        if partitions:
            context.events.append(self._markers_due(found.transactional_id, prepared))
        else:
            self._write(context, found.transactional_id, _completed(prepared, context.now_ms), last_epoch)
        return prepared

    def _fence(self, context: _Context, found: Transaction) -> bool:
        """Abort the open transaction of a producer that is gone: at the next epoch, so that nothing of it is taken any more."""
        return self._prepare(context, found, commits=False, bumps_epoch=True) is not None

    def _markers_due(self, transactional_id: str, prepared: TransactionValue) -> MarkersDue:
        return MarkersDue(
            transactional_id=transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            coordinator_epoch=self.leader_epoch,
            commits=prepared.transaction_status == State.PREPARE_COMMIT,
            bumps_epoch=prepared.client_transaction_version == _SECOND,
            partitions=tuple(partitions_of(prepared)),
        )

    def _complete(self, context: _Context, command: CompleteTransaction) -> None:
        found = self.state.transactions.get(command.transactional_id)
        if found is not None and _is_ending(found, command):
            self._write(context, found.transactional_id, _completed(found.value, context.now_ms), found.last_epoch)

    def is_ending(self, due: MarkersDue) -> bool:
        """Whether the transaction's outcome is decided, and the transaction not complete."""
        found = self.state.transactions.get(due.transactional_id)
        return found is not None and _is_ending(found, due)

    def _abort_timed_out(self, context: _Context, _command: AbortTimedOut) -> None:
        overdue = self.state.opened.overdue(context.now_ms, _SWEPT_MAX)
        self.state.is_sweeping = len(overdue) == _SWEPT_MAX
        for transactional_id in overdue:
            if self._fence(context, self.state.transactions[transactional_id]):
                context.log(f"Completed rollback of ongoing transaction for transactionalId {transactional_id} due to timeout")

    def _expire_ids(self, context: _Context) -> None:
        """Forget those of some ids that were not used for long; the next ones follow in the next iteration of the event loop."""
        state, before_ms = self.state, context.now_ms - self.state.settings.id_expiration_ms
        if not state.unchecked:
            state.unchecked = list(state.transactions)
        for transactional_id in state.unchecked[-_SWEPT_MAX:]:
            found = state.transactions.get(transactional_id)
            if found is not None and found.state in ENDED and found.value.transaction_last_update_timestamp_ms <= before_ms:
                context.records.append(TransactionRecord(transactional_id, None))
        del state.unchecked[-_SWEPT_MAX:]
        context.arm(Timer(_EXPIRY), 0 if state.unchecked else state.settings.expire_interval_ms)

    def _write(self, context: _Context, transactional_id: str, value: TransactionValue, last_epoch: int) -> None:
        context.records.append(TransactionRecord(transactional_id, value, last_epoch))

    # The hooks of the runtime

    def periodic_delay_ms(self) -> int:
        return 0 if self.state.is_sweeping else self.state.settings.abort_interval_ms

    def restore(self, loaded: dict[str, Stored]) -> None:
        self.state.transactions = {name: Transaction(name, stored) for name, stored in loaded.items()}
        opened = {name: value for name, value in loaded.items() if isinstance(value, TransactionValue)}
        for status, count in Counter(stored[STATUS_AT] for stored in loaded.values() if isinstance(stored, bytes)).items():
            self.state.counts[State(status)] += count
        for name, value in sorted(opened.items(), key=lambda item: item[1].transaction_start_timestamp_ms):
            self.state.count(name, None, value)

    def _decide(self, command: Command, now_ms: int, timer_ms: int) -> TransactionEffects:
        context: _Context = Context(self.state, now_ms, timer_ms)
        if getattr(command, "transactional_id", None) == "" and isinstance(command, Request):
            context.reply(command.reply_to, error_result(command, ErrorCode.INVALID_REQUEST))
        else:
            handler: Callable[[_Context, Any], None] = _HANDLERS[type(command)].__get__(self)
            handler(context, command)
        return context.effects()

    def _refuse(self, command: Command) -> TransactionEffects:
        if not isinstance(command, Request):
            return NO_EFFECTS
        return Effects(replies=(Reply(to=command.reply_to, result=refusal(command, self.status)),))

    def _replay(self, record: TransactionRecord) -> None:
        transactions = self.state.transactions
        found = transactions.get(record.transactional_id)
        self.state.count(record.transactional_id, None if found is None else found.state, record.value)
        if record.value is None:
            transactions.pop(record.transactional_id, None)
        elif found is None:
            transactions[record.transactional_id] = Transaction(record.transactional_id, record.value, record.last_epoch)
        else:
            new = State(record.value.transaction_status)
            assert found.state in MAY_COME_FROM[new], f"{record.transactional_id} is {found.state.shown} and may not become {new.shown}"
            found.stored, found.last_epoch = record.value, record.last_epoch

    def _fire(self, timer: Timer, now_ms: int, timer_ms: int) -> TransactionEffects:
        assert timer.kind == _EXPIRY
        context: _Context = Context(self.state, now_ms, timer_ms)
        self._expire_ids(context)
        return context.effects()

    def _finish_loading(self, now_ms: int, timer_ms: int) -> TransactionEffects:
        context: _Context = Context(self.state, now_ms, timer_ms)
        for found in self.state.transactions.values():
            if found.state in PREPARED:
                context.events.append(self._markers_due(found.transactional_id, found.value))
        context.arm(Timer(_EXPIRY), self.state.settings.expire_interval_ms)
        return context.effects()

    def _resign(self, now_ms: int, timer_ms: int) -> TransactionEffects:
        self.state.clear()
        return NO_EFFECTS

    def _append_failed(self, failed: AppendFailed, now_ms: int, timer_ms: int) -> TransactionEffects:
        self.state.is_sweeping = False
        error = _APPEND_ERRORS.get(failed.error, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Effects(replies=tuple(Reply(to=reply.to, result=_failed(reply.result, error)) for reply in failed.effects.replies))

    def _changed_keys(self, records: Sequence[TransactionRecord]) -> Iterable[tuple[str, bool]]:
        return [(record.transactional_id, True) for record in records]

    def parked_requests(self) -> Iterable[int]:
        return ()


_APPEND_ERRORS: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a failed append is to the client (Kafka: `appendTransactionToLog`)."""

_HANDLERS: Final[dict[type, Any]] = {
    InitProducerId: TransactionCoordinator._init_producer_id,
    AddPartitions: TransactionCoordinator._add_partitions,
    VerifyPartitions: TransactionCoordinator._verify_partitions,
    EndTxn: TransactionCoordinator._end,
    DescribeTransaction: TransactionCoordinator._describe,
    ListTransactions: TransactionCoordinator._list,
    CompleteTransaction: TransactionCoordinator._complete,
    AbortTimedOut: TransactionCoordinator._abort_timed_out,
}


def _refusal(found: Transaction | None, command: AddPartitions | VerifyPartitions) -> ErrorCode:
    """Why a producer may not add partitions, or ask for them."""
    if found is None or found.value.producer_id != command.producer_id:
        is_prepared = found is not None and found.state in PREPARED and isinstance(command, AddPartitions)
        return ErrorCode.CONCURRENT_TRANSACTIONS if is_prepared else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.state in PREPARED and isinstance(command, AddPartitions):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if found.value.producer_epoch != command.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if found.state in PREPARED else ErrorCode.NONE


def _outcome(found: Transaction, command: EndTxn) -> Ending | ErrorCode:
    """What EndTxn does: the checks that come before the table of states, in Kafka's order, then the table."""
    value, key = found.value, (found.state, command.commits)
    asked = (command.producer_id, command.producer_epoch)
    if not command.bumps_epoch:
        if command.producer_id != value.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if command.producer_epoch != value.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if found.state in PREPARED else FIRST_VERSION[key]
    if found.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    has_overflowed = asked == (value.previous_producer_id, EXHAUSTED_EPOCH) and value.producer_epoch == 0
    if command.producer_id != value.producer_id and not has_overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = has_overflowed or command.producer_epoch + 1 == value.producer_epoch
    if command.producer_epoch != value.producer_epoch and not is_repeated:
        return ErrorCode.PRODUCER_FENCED
    return SECOND_VERSION[key][is_repeated]


def _completed(prepared: TransactionValue, now_ms: int) -> TransactionValue:
    """What a decided transaction becomes when all markers are written. A producer whose epochs are used up goes on with its new id."""
    has_new_id = prepared.next_producer_id != NO_PRODUCER_ID
    return replace(
        prepared,
        previous_producer_id=prepared.producer_id,
        producer_id=prepared.next_producer_id if has_new_id else prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0 if has_new_id else prepared.producer_epoch,
        transaction_status=PREPARED[State(prepared.transaction_status)],
        transaction_partitions=(),
        transaction_last_update_timestamp_ms=now_ms,
    )


def _is_ending(found: Transaction, ended: CompleteTransaction | MarkersDue) -> bool:
    ends = (found.value.producer_id, found.value.producer_epoch)
    return found.state in PREPARED and ends == (ended.producer_id, ended.producer_epoch)


def _description(found: Transaction) -> TransactionDescription:
    value = found.value
    return TransactionDescription(
        error=ErrorCode.NONE,
        transactional_id=found.transactional_id,
        state=found.state,
        timeout_ms=value.transaction_timeout_ms,
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        partitions=tuple(partitions_of(value)),
    )


def _failed(result: Result, error: ErrorCode) -> Result:
    match result:
        case ProducerResult():
            return ProducerResult(error=error)
        case PartitionsResult():
            return PartitionsResult(error=error)
        case _:
            return result


def refusal(command: Request, status: CoordinatorStatus) -> Result:
    """The answer of a coordinator that does not serve: an empty id comes first."""
    if getattr(command, "transactional_id", None) == "":
        return error_result(command, ErrorCode.INVALID_REQUEST)
    is_loading = status is CoordinatorStatus.LOADING
    return error_result(command, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR)


class TransactionService(CoordinatorService[TransactionCoordinator]):
    """The transactions of one broker."""

    coordinator_type = TransactionCoordinator
    codec = Codec.NONE

    def __init__(self, settings: TransactionSettings, producer_ids: ProducerIdSource) -> None:
        self._settings = settings
        self._producer_ids = producer_ids

    def create(self, *, partition: int, node_id: int, leader_epoch: int) -> TransactionCoordinator:
        return TransactionCoordinator(self._settings, self._producer_ids, partition=partition, node_id=node_id, leader_epoch=leader_epoch)

    def reducer(self, log_bytes: int) -> TransactionReducer:
        return TransactionReducer()

    def refusal(self, command: Request, status: CoordinatorStatus) -> Result:
        return refusal(command, status)

    def error_result(self, command: Request, error: ErrorCode) -> Result:
        return error_result(command, error)
