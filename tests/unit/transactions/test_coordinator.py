"""The transaction coordinator without I/O: epochs, producers, timeouts, loading."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.coordinator import AppendFailed, FinishLoading, Resign
from ottla.coordinator.loading import CheckedBatches
from ottla.metadata.topics import TRANSACTION_STATE
from ottla.protocol.coordinator_records import TRANSACTION_TOPIC_TYPES, TransactionKey, TransactionPartitions, TransactionValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records import batch as batch_of_records
from ottla.protocol.records.batch import frame_batch
from ottla.transactions.commands import (
    AbortTimedOut,
    AddPartitions,
    CompleteTransaction,
    DescribeTransaction,
    EndTxn,
    InitProducerId,
    ListTransactions,
    MarkersDue,
    VerifyPartitions,
)
from ottla.transactions.coordinator import EXHAUSTED_EPOCH, TransactionCoordinator, TransactionSettings
from ottla.transactions.open_transactions import NEVER_MS
from ottla.transactions.records import TransactionRecord, TransactionReducer, encode_records, grouped, state_of, value_of
from ottla.transactions.states import ENDED, State

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
HOUR_MS = 3_600_000


class Ids:
    """Producer ids from 0 on."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def next(self) -> int:
        return next(self._numbers)


class Shell:
    """One coordinator after the other over one log of records; what is decided is appended at once."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.ids = Ids()
        self.records: list[TransactionRecord] = []
        self.due: list[MarkersDue] = []
        self.lines: list[str] = []
        self.now_ms = 1_000_000
        self.error: ErrorCode | None = None
        """That of the next append."""
        self.load()

    def load(self) -> None:
        """Another coordinator reads the log."""
        reducer = TransactionReducer()
        if self.records:
            batch, _ = frame_batch(encode_records(self.records, 0), len(self.records), timestamp_ms=0)
            reducer.apply(CheckedBatches(batch), skipped=frozenset(), from_offset=0)
        self.coordinator = TransactionCoordinator(self.settings, self.ids, leader_epoch=3)
        self.coordinator.restore(reducer.finish().replayed)
        self.due = []
        self._do(FinishLoading())

    def run(self, command: Any) -> Any:
        """The result of a command."""
        replies = self._do(command)
        return replies[0].result if replies else None

    def _do(self, command: Any) -> Any:
        return self._store(self.coordinator.handle(command, now_ms=self.now_ms))

    def _store(self, effects: Any) -> Any:
        if effects.records and self.error is not None:
            failed = AppendFailed(effects=effects, error=self.error)
            self.error = None
            effects = self.coordinator.handle(failed, now_ms=self.now_ms)
        self.coordinator.replay_all(effects.records)
        self.records += effects.records
        self.due += effects.events
        self.lines += effects.log_lines
        return effects.replies

    def fire_timers(self) -> None:
        """Run every timer that is due."""
        while (due_ms := self.coordinator.next_deadline_ms()) is not None and due_ms <= self.now_ms:
            self._store(self.coordinator.fire_timers(now_ms=self.now_ms))

    def init(self, name: str = "x", timeout_ms: int = 60_000, **known: int) -> Any:
        return self.run(InitProducerId(reply_to=1, transactional_id=name, timeout_ms=timeout_ms, **known))

    def add(self, producer: Any, *partitions: TopicPartition, name: str = "x", bumps_epoch: bool = False) -> ErrorCode:
        named = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        partitions = partitions or (A,)
        result = self.run(AddPartitions(reply_to=1, transactional_id=name, partitions=partitions, bumps_epoch=bumps_epoch, **named))
        error: ErrorCode = result.error
        return error

    def end(self, producer: Any, *, commits: bool = True, bumps_epoch: bool = True, name: str = "x") -> Any:
        named = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        return self.run(EndTxn(reply_to=1, transactional_id=name, commits=commits, bumps_epoch=bumps_epoch, **named))

    def complete(self) -> None:
        """All markers are written; what cannot be completed now stays due."""
        for each in self.due:
            named = {"producer_id": each.producer_id, "producer_epoch": each.producer_epoch}
            self.run(CompleteTransaction(transactional_id=each.transactional_id, **named))
        self.due = [each for each in self.due if self.coordinator.is_ending(each)]

    def state(self, name: str = "x") -> Any:
        return self.run(DescribeTransaction(reply_to=1, transactional_id=name))


@pytest.fixture
def shell() -> Shell:
    return Shell()


def with_epoch(shell: Shell, epoch: int) -> Any:
    """A producer whose epoch is this, as after many transactions."""
    producer = shell.init()
    (value,) = [record.value for record in shell.records]
    assert value is not None
    shell.records.append(TransactionRecord("x", replace(value, producer_epoch=epoch)))
    shell.load()
    return replace(producer, producer_epoch=epoch)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldAppendNewMetadataToLogOnAddPartitionsWhenPartitionsAdded",
    "TransactionCoordinatorTest.shouldRespondWithErrorsNoneOnAddPartitionWhenNoErrorsAndPartitionsTheSame",
    "TransactionCoordinatorTest.shouldRespondWithSuccessOnAddPartitionsWhenStateIsCompleteCommit",
    "TransactionCoordinatorTest.shouldRespondWithConcurrentTransactionsOnAddPartitionsWhenStateIsPrepareCommit",
    "TransactionCoordinatorTest.shouldWaitForCommitToCompleteOnHandleInitPidAndExistingTransactionInPrepareCommitState",
    "TransactionCoordinatorTest.shouldReturnConcurrentTransactionsOnEndTxnRequestWhenStatusIsPrepareCommit",
    "TransactionStateManagerTest.testCompleteTransitionWhenAppendSucceeded",
    "TransactionStateManagerTest.testAddGetPids",
    "TransactionMetadataTest.testInitializeEpoch",
)
def test_a_transaction(shell: Shell) -> None:
    producer = shell.init()
    assert (producer.producer_id, producer.producer_epoch) == (0, 0)
    assert shell.lines == [f"Initialized transactionalId x with producerId 0 and producer epoch 0 on partition {TRANSACTION_STATE}-0"]
    assert shell.add(producer, A) is shell.add(producer, A, B) is shell.add(producer, B) is ErrorCode.NONE
    assert (shell.state().state, shell.state().partitions) == (State.ONGOING, (A, B))
    assert len(shell.records) == 3, "what is in the transaction already needs no record"
    ended = shell.end(producer)
    assert (ended.producer_id, ended.producer_epoch) == (0, 1)
    (due,) = shell.due
    assert (due.partitions, due.commits, due.producer_epoch, due.coordinator_epoch) == ((A, B), True, 1, 3)
    assert shell.add(ended) is shell.end(ended).error is shell.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.complete()
    assert (shell.state().state, shell.state().partitions) == (State.COMPLETE_COMMIT, ())
    assert shell.add(producer) is ErrorCode.PRODUCER_FENCED
    assert shell.add(ended) is ErrorCode.NONE


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldReturnConcurrentTxnOnAddPartitionsIfEndTxnV2EpochOverflowAndNotComplete",
    "TransactionCoordinatorTest.shouldReturnOkOnEndTxnV2IfEndTxnV2RetryEpochOverflow",
    "TransactionStateManagerTest.shouldWriteTxnMarkersForTransactionInPreparedCommitState",
    "TransactionStateManagerTest.shouldWriteTxnMarkersForTransactionInPreparedAbortState",
    "TransactionMetadataTest.testEpochBumpOnEndTxnOverflow",
)
def test_the_last_epoch_ends_a_transaction_and_the_producer_goes_on_with_a_new_id(shell: Shell, commits: bool) -> None:
    producer = with_epoch(shell, EXHAUSTED_EPOCH)
    shell.add(producer)
    ended = shell.end(producer, commits=commits)
    assert (ended.producer_id, ended.producer_epoch) == (1, 0)
    assert (shell.due[0].producer_id, shell.due[0].producer_epoch) == (0, EXHAUSTED_EPOCH + 1)
    assert shell.add(ended) is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.load()  # the markers of what was decided are due again
    shell.complete()
    again = shell.end(producer, commits=commits)  # a repetition, with the old id
    assert (again.error, again.producer_id, again.producer_epoch) == (ErrorCode.NONE, 1, 0)
    assert shell.add(ended) is ErrorCode.NONE


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldGenerateNewProducerIdIfEpochsExhausted",
    "TransactionCoordinatorTest.shouldGenerateNewProducerIdIfEpochsExhaustedV2",
    "TransactionCoordinatorTest.testRetryInitProducerIdAfterProducerIdRotation",
    "TransactionMetadataTest.testRotateProducerId",
)
def test_a_producer_without_epochs_gets_a_new_id_when_it_begins(shell: Shell) -> None:
    producer = with_epoch(shell, EXHAUSTED_EPOCH)
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    begun = shell.init(**known)
    assert (begun.producer_id, begun.producer_epoch) == (1, 0)
    repeated = shell.init(**known)
    assert (repeated.producer_id, repeated.producer_epoch) == (1, 0)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldAbortExpiredTransactionsInOngoingStateAndBumpEpoch",
    "TransactionStateManagerTest.shouldOnlyConsiderTransactionsInTheOngoingStateToAbort",
)
def test_a_timeout_is_counted_from_the_first_partition_and_fences(shell: Shell) -> None:
    producer, patient = shell.init(timeout_ms=1_000), shell.init("y", timeout_ms=2_000)
    shell.add(producer)
    shell.add(patient, name="y")
    shell.now_ms += 1_000
    shell.add(producer, B)
    shell.run(AbortTimedOut())
    assert not shell.due, "not before the timeout is over"
    shell.now_ms += 1
    shell.run(AbortTimedOut())
    assert [(due.transactional_id, due.commits, due.producer_epoch) for due in shell.due] == [("x", False, 1)]
    assert shell.end(producer).error is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.complete()
    assert shell.end(producer, bumps_epoch=False).error is ErrorCode.PRODUCER_FENCED
    assert shell.state("y").state is State.ONGOING


def test_many_timeouts_take_several_steps(shell: Shell) -> None:
    for number in range(250):
        shell.add(shell.init(f"x{number}", timeout_ms=1), name=f"x{number}")
    shell.now_ms += 10
    steps = []
    while not steps or shell.coordinator.periodic_delay_ms() == 0:
        before = len(shell.due)
        shell.run(AbortTimedOut())
        steps.append(len(shell.due) - before)
    assert steps == [100, 100, 50]
    assert shell.coordinator.periodic_delay_ms() == 10_000


def test_what_never_times_out() -> None:
    shell = Shell(max_timeout_ms=NEVER_MS)
    shell.add(shell.init(timeout_ms=NEVER_MS))
    shell.now_ms += 100 * 365 * 24 * HOUR_MS
    shell.run(AbortTimedOut())
    assert not shell.due


@pytest.mark.conformance(
    "TransactionStateManagerTest.shouldRemoveEmptyExpiredTransactionalIds",
    "TransactionStateManagerTest.shouldNotRemoveOngoingTransactionalIds",
)
def test_ids_without_use_are_forgotten() -> None:
    shell = Shell(id_expiration_ms=10 * HOUR_MS)
    open_one = shell.init("open", timeout_ms=900_000)
    shell.init()
    shell.add(open_one, name="open")
    shell.now_ms += 9 * HOUR_MS
    shell.fire_timers()
    assert shell.state().error is ErrorCode.NONE
    shell.now_ms += 2 * HOUR_MS
    shell.fire_timers()
    assert [record.transactional_id for record in shell.records if record.value is None] == ["x"]
    assert shell.state().error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert shell.state("open").state is State.ONGOING
    assert shell.init().producer_id == 2


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
@pytest.mark.conformance(
    "TransactionStateManagerTest.testAppendFailToCoordinatorNotAvailableError",
    "TransactionStateManagerTest.testAppendFailToNotCoordinatorError",
    "TransactionStateManagerTest.testAppendFailToUnknownError",
)
def test_a_failed_append_changes_nothing(shell: Shell, failed: ErrorCode, said: ErrorCode) -> None:
    producer = shell.init()
    shell.add(producer)
    before = shell.state()
    shell.error = failed
    assert shell.end(producer).error is said
    assert (shell.state(), shell.due) == (before, [])
    assert shell.end(producer).error is ErrorCode.NONE


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldRespondWithNotCoordinatorOnInitPidWhenNotCoordinator",
    "TransactionCoordinatorTest.shouldRemoveTransactionsForPartitionOnEmigration",
    "TransactionCoordinatorTest.testDescribeTransactionsWhileCoordinatorLoading",
)
def test_one_that_does_not_serve(shell: Shell) -> None:
    shell.run(Resign())
    assert shell.init().error is ErrorCode.NOT_COORDINATOR
    assert shell.init("").error is ErrorCode.INVALID_REQUEST
    assert (
        TransactionCoordinator(shell.settings, shell.ids)
        .handle(DescribeTransaction(reply_to=1, transactional_id="x"), now_ms=0)
        .replies[0]
        .result.error
        is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


_WHAT = ["init", "init again", "add", "end", "end", "complete", "load", "sweep", "fail"]
_STEPS = st.lists(st.tuples(st.sampled_from(_WHAT), st.booleans(), st.booleans()), max_size=40)


@given(_STEPS)
def test_whatever_happens(steps: list[tuple[str, bool, bool]]) -> None:
    """Epochs of a producer id never go back, each decision has its markers until it is complete, and the log has all that is known."""
    shell = Shell()
    producers = [shell.init(), shell.init()]
    epochs: dict[int, int] = {}
    for what, which, flag in steps:
        producer = producers[which]
        known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        match what:
            case "init" | "init again":
                begun = shell.init(timeout_ms=1_000, **(known if what == "init again" else {}))
                if begun.error is ErrorCode.NONE:
                    producers[which] = begun
            case "add":
                shell.add(producer, B if flag else A, bumps_epoch=flag)
            case "end":
                ended = shell.end(producer, commits=flag, bumps_epoch=which)
                if ended.error is ErrorCode.NONE:
                    producers[which] = ended
            case "complete":
                shell.complete()
            case "load":
                before = shell.state()
                shell.load()
                assert shell.state() == before
            case "sweep":
                shell.now_ms += 900
                shell.run(AbortTimedOut())
            case "fail":
                shell.error = ErrorCode.KAFKA_STORAGE_ERROR
        state = shell.state()
        assert state.producer_epoch >= epochs.get(state.producer_id, 0)
        epochs[state.producer_id] = state.producer_epoch
        is_prepared = state.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
        assert is_prepared == bool(shell.due), state
        assert not is_prepared or shell.due[-1].partitions == state.partitions


@pytest.mark.conformance(
    "TransactionMetadataTest.testTolerateUpdateTimeShiftDuringEpochBump",
    "TransactionMetadataTest.testTolerateTimeShiftDuringAddPartitions",
    "TransactionMetadataTest.testTolerateTimeShiftDuringPrepareCommit",
    "TransactionMetadataTest.testTolerateTimeShiftDuringPrepareAbort",
    "TransactionMetadataTest.testTolerateTimeShiftDuringCompleteCommit",
    "TransactionMetadataTest.testTolerateTimeShiftDuringCompleteAbort",
    "TransactionCoordinatorTest.shouldRespondWithSuccessOnAddPartitionsWhenStateIsCompleteAbort",
    "TransactionCoordinatorTest.shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteTransaction",
    "TransactionCoordinatorTest.shouldIncrementEpochAndUpdateMetadataOnHandleInitPidWhenExistingCompleteCommitTransaction",
    "TransactionMetadataTest.testNormalEpochBump",
)
def test_the_clock_may_step_back(shell: Shell) -> None:
    producer = shell.init()
    for commits in (True, False):
        shell.now_ms -= 100
        assert shell.add(producer) is ErrorCode.NONE
        shell.now_ms -= 100
        producer = shell.end(producer, commits=commits)
        shell.now_ms -= 100
        shell.complete()
        assert shell.state().state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT)
        shell.now_ms -= 100
        producer = shell.init()
        assert (shell.state().state, shell.state().last_update_ms) == (State.EMPTY, shell.now_ms)


@pytest.mark.conformance(
    "TransactionStateManagerTest.shouldNotRemoveExpiredTransactionalIdsIfLogAppendFails",
    "TransactionStateManagerTest.shouldNotRemovePrepareAbortTransactionalIds",
    "TransactionStateManagerTest.shouldNotRemovePrepareCommitTransactionalIds",
    "TransactionStateManagerTest.shouldRemoveCompleteCommitExpiredTransactionalIds",
    "TransactionStateManagerTest.shouldRemoveCompleteAbortExpiredTransactionalIds",
    "TransactionStateManagerTest.testTransactionalExpirationWithOfflineLogDir",
)
def test_ids_stay_while_the_log_takes_no_tombstones_and_while_an_end_is_not_complete() -> None:
    shell = Shell(id_expiration_ms=HOUR_MS)
    shell.init()
    for name, commits in (("committing", True), ("aborting", False)):
        producer = shell.init(name)
        shell.add(producer, name=name)
        shell.end(producer, commits=commits, name=name)
    shell.now_ms += 2 * HOUR_MS
    shell.error = ErrorCode.KAFKA_STORAGE_ERROR
    shell.fire_timers()
    assert shell.state().error is ErrorCode.NONE
    shell.now_ms += 2 * HOUR_MS
    shell.load()
    shell.now_ms += 2 * HOUR_MS
    shell.fire_timers()
    assert shell.state().error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (shell.state("committing").state, shell.state("aborting").state) == (State.PREPARE_COMMIT, State.PREPARE_ABORT)
    shell.complete()
    shell.now_ms += 2 * HOUR_MS
    shell.fire_timers()
    assert {shell.state(name).error for name in ("committing", "aborting")} == {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldNotBumpEpochWhenAbortingExpiredTransactionIfAppendToLogFails",
    "TransactionCoordinatorTest.testTV2AllowsEpochReBumpingAfterFailedWrite",
)
def test_a_timeout_that_cannot_be_written_fences_only_once(shell: Shell) -> None:
    shell.add(shell.init(timeout_ms=1_000))
    shell.now_ms += 2_000
    for _ in range(3):
        shell.error = ErrorCode.KAFKA_STORAGE_ERROR
        shell.run(AbortTimedOut())
        assert (shell.state().state, shell.state().producer_epoch) == (State.ONGOING, 0)
    shell.run(AbortTimedOut())
    assert (shell.state().state, shell.state().producer_epoch) == (State.PREPARE_ABORT, 1)


@pytest.mark.parametrize("late", ["abort", "init", "nothing"])
@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyTV2",
    "TransactionCoordinatorTest.shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyAndLateClientAbortRequestTV2",
    "TransactionCoordinatorTest.shouldHandleTimeoutAtEpochOverflowBoundaryCorrectlyAndRetryInitProducerIdTV2",
    "TransactionsTest.testRecoveryFromEpochOverflow",
)
def test_a_timeout_at_the_last_epoch_gives_the_producer_a_new_id(shell: Shell, late: str) -> None:
    producer = with_epoch(shell, EXHAUSTED_EPOCH)
    shell.add(producer, bumps_epoch=True)
    shell.now_ms += 61_000
    shell.run(AbortTimedOut())
    assert (shell.due[0].producer_id, shell.due[0].producer_epoch) == (0, EXHAUSTED_EPOCH + 1)
    shell.complete()
    assert (shell.state().producer_id, shell.state().producer_epoch) == (1, 0)
    if late == "abort":
        answer = shell.end(producer, commits=False)
        assert (answer.error, answer.producer_id, answer.producer_epoch) == (ErrorCode.NONE, 1, 0)
    elif late == "init":
        answer = shell.init(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        assert (answer.error, answer.producer_id) == (ErrorCode.NONE, 1)
    else:
        assert shell.end(producer, commits=True).error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldRotateProducerIdWhenInitPidFencesOngoingTxnAtEpochOverflowBoundaryTV2",
    "TransactionCoordinatorTest.shouldUseLastEpochToFenceWhenEpochsAreExhausted",
    "TransactionCoordinatorTest.shouldNotCauseEpochOverflowWhenInitPidDuringOngoingTxnV2",
    "TransactionMetadataTest.testFenceProducerAfterEpochsExhausted",
)
def test_a_predecessor_is_fenced_at_its_last_epoch_and_the_next_one_gets_a_new_id(shell: Shell) -> None:
    shell.add(with_epoch(shell, EXHAUSTED_EPOCH))
    assert shell.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (shell.due[0].producer_id, shell.due[0].producer_epoch) == (0, EXHAUSTED_EPOCH + 1)
    shell.complete()
    begun = shell.init()
    assert (begun.error, begun.producer_id, begun.producer_epoch) == (ErrorCode.NONE, 1, 1)


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldWaitForCommitToCompleteOnHandleInitPidAndExistingTransactionInPrepareAbortState",
    "TransactionCoordinatorTest.shouldRespondWithConcurrentTransactionOnAddPartitionsWhenStateIsPrepareAbort",
    "TransactionCoordinatorTest.shouldReturnInvalidTxnRequestOnEndTxnRequestWhenStatusIsPrepareAbort",
    "TransactionCoordinatorTest.shouldNotBumpEpochWithPendingTransaction",
    "TransactionCoordinatorTest.shouldNotAbortExpiredTransactionsThatHaveAPendingStateTransition",
    "TransactionMarkerChannelManagerTest.shouldOnlyWriteTxnCompletionOnce",
    "TransactionMetadataTest.testRotateProducerIdInPrepareAbortState",
    "TransactionMetadataTest.testRotateProducerIdInPrepareCommitState",
)
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("epoch", [0, EXHAUSTED_EPOCH - 1])
def test_while_an_end_is_carried_out_nothing_else_is_done(shell: Shell, commits: bool, epoch: int) -> None:
    producer = with_epoch(shell, epoch)
    shell.add(producer)
    ended = shell.end(producer, commits=commits, bumps_epoch=False)
    assert ended.producer_epoch == epoch
    shell.now_ms += HOUR_MS
    written = len(shell.records)
    shell.run(AbortTimedOut())
    for again in (True, False):
        for bumps_epoch in (True, False):
            assert shell.end(producer, commits=again, bumps_epoch=bumps_epoch).error is ErrorCode.CONCURRENT_TRANSACTIONS
    known = {"producer_id": producer.producer_id, "producer_epoch": epoch}
    assert shell.init().error is shell.init(**known).error is shell.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (len(shell.records), len(shell.due)) == (written, 1)
    due = list(shell.due)
    shell.complete()
    assert len(shell.records) == written + 1
    shell.due = due
    shell.complete()
    assert len(shell.records) == written + 1, "once"


@pytest.mark.conformance(
    "TransactionCoordinatorTest.testVerifyPartitionHandling",
    "TransactionCoordinatorTest.shouldRespondWithErrorsNoneOnAddPartitionWhenOngoingVerifyOnlyAndPartitionsTheSame",
    "TransactionCoordinatorTest.shouldRespondWithInvalidTxnStateWhenVerifyOnlyAndPartitionNotPresent",
)
def test_verification(shell: Shell) -> None:
    def verify(name: str = "x", producer_id: int = 0, producer_epoch: int = 0) -> tuple[ErrorCode, set[TopicPartition]]:
        named = {"producer_id": producer_id, "producer_epoch": producer_epoch, "partitions": (A, B)}
        result = shell.run(VerifyPartitions(reply_to=1, transactional_id=name, **named))
        return result.error, set(result.missing)

    producer = shell.init()
    assert verify("unknown") == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, set())
    assert verify() == (ErrorCode.NONE, {A, B})
    shell.add(producer, A)
    assert verify() == (ErrorCode.NONE, {B})
    assert verify(producer_id=7, producer_epoch=9) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, set())
    assert verify(producer_epoch=9) == (ErrorCode.PRODUCER_FENCED, set())
    shell.end(producer, bumps_epoch=False)
    assert verify() == (ErrorCode.CONCURRENT_TRANSACTIONS, set())
    shell.complete()
    assert verify() == (ErrorCode.NONE, {A, B})


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldRespondWithCoordinatorLoadInProgressOnInitPidWhenCoordinatorLoading",
    "TransactionCoordinatorTest.shouldRespondWithCoordinatorLoadInProgressOnAddPartitionsWhenCoordinatorLoading",
    "TransactionCoordinatorTest.shouldRespondWithNotCoordinatorOnAddPartitionsWhenNotCoordinator",
    "TransactionCoordinatorTest.shouldRespondWithNotCoordinatorOnEndTxnWhenIsNotCoordinatorForId",
    "TransactionCoordinatorTest.shouldRespondWithCoordinatorLoadInProgressOnEndTxnWhenCoordinatorIsLoading",
    "TransactionCoordinatorTest.testDescribeTransactionsWithEmptyTransactionalId",
    "TransactionStateManagerTest.shouldReturnNotCoordinatorErrorIfTransactionIdPartitionNotOwned",
    "TransactionStateManagerTest.testListTransactionsWithCoordinatorLoadingInProgress",
)
def test_what_one_that_does_not_serve_says(shell: Shell) -> None:
    named = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
    commands: list[Any] = [
        InitProducerId(reply_to=1, transactional_id="x", timeout_ms=1),
        AddPartitions(reply_to=1, partitions=(A,), **named),
        EndTxn(reply_to=1, commits=True, bumps_epoch=False, **named),
        DescribeTransaction(reply_to=1, transactional_id="x"),
        ListTransactions(reply_to=1),
    ]
    loading = TransactionCoordinator(shell.settings, shell.ids)
    shell.run(Resign())
    for coordinator, error in ((loading, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (shell.coordinator, ErrorCode.NOT_COORDINATOR)):
        assert {coordinator.handle(each, now_ms=0).replies[0].result.error for each in commands} == {error}
    nameless = DescribeTransaction(reply_to=1, transactional_id="")
    assert loading.handle(nameless, now_ms=0).replies[0].result.error is ErrorCode.INVALID_REQUEST


@pytest.mark.conformance(
    "TransactionCoordinatorTest.testInitProducerIdWithInvalidEpochAfterProducerIdRotation",
    "TransactionMetadataTest.testBumpEpochNotAllowedIfEpochsExhausted",
    "TransactionMetadataTest.testTolerateUpdateTimeResetDuringProducerIdRotation",
)
def test_an_old_epoch_of_the_id_before_is_fenced(shell: Shell) -> None:
    producer = with_epoch(shell, EXHAUSTED_EPOCH)
    shell.now_ms -= 100
    assert shell.init(producer_id=producer.producer_id, producer_epoch=EXHAUSTED_EPOCH).producer_id == 1
    stale = shell.init(producer_id=producer.producer_id, producer_epoch=EXHAUSTED_EPOCH - 1)
    assert stale.error is ErrorCode.PRODUCER_FENCED


@pytest.mark.conformance(
    "TransactionCoordinatorTest.shouldNotRepeatedlyBumpEpochDueToInitPidDuringOngoingTxnIfAppendToLogFails",
    "TransactionsTest.testFailureToFenceEpoch",
)
def test_a_fence_that_cannot_be_written_changes_nothing(shell: Shell) -> None:
    shell.add(shell.init())
    for _ in range(3):
        shell.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert shell.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (shell.state().state, shell.state().producer_epoch) == (State.ONGOING, 0)
    assert shell.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    shell.complete()
    assert shell.init().producer_epoch == 2


@pytest.mark.conformance(
    "TransactionStateManagerTest.testTransactionExpirationShouldRespectBatchSize",
    "TransactionStateManagerTest.testTransactionalExpirationWithTooSmallBatchSize",
)
def test_many_ids_are_forgotten_in_several_steps() -> None:
    shell = Shell(id_expiration_ms=HOUR_MS)
    for number in range(250):
        shell.init(f"x{number}")
    shell.now_ms += 2 * HOUR_MS
    forgotten = []
    while (due_ms := shell.coordinator.next_deadline_ms()) is not None and due_ms <= shell.now_ms:
        before = len(shell.records)
        shell._store(shell.coordinator.fire_timers(now_ms=shell.now_ms))
        forgotten.append(len(shell.records) - before)
    assert forgotten == [100, 100, 50]


@pytest.mark.conformance("TransactionStateManagerTest.testIgnoreUnknownRecordType")
def test_records_of_other_types_are_counted() -> None:
    reducer = TransactionReducer()
    batch, _ = frame_batch(
        bytes(batch_of_records.encode_records([Record(0, 0, b"\0\x09x", b"\0\0")], base_offset=0, base_timestamp_ms=0)), 1, timestamp_ms=0
    )
    reducer.apply(CheckedBatches(batch), skipped=frozenset(), from_offset=0)
    loaded = reducer.finish()
    assert (loaded.replayed, loaded.unknown, loaded.problems) == ({}, 1, ())


def loaded_from(*records: Record) -> Any:
    """What a log of these records replays to, each in a batch of its own."""
    reducer = TransactionReducer()
    for record in records:
        framed = batch_of_records.encode_records([record], base_offset=0, base_timestamp_ms=0)
        batch, _ = frame_batch(bytes(framed), 1, timestamp_ms=0)
        reducer.apply(CheckedBatches(batch), skipped=frozenset(), from_offset=0)
    return reducer.finish()


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("previous_id", [-1, 6])
@pytest.mark.parametrize("version", [0, 2])
def test_values_that_stay_bytes_until_they_are_read(state: State, previous_id: int, version: int) -> None:
    value = TransactionValue(
        producer_id=7,
        previous_producer_id=previous_id,
        producer_epoch=5,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=None if state is State.EMPTY else () if state in ENDED else grouped([A]),
        transaction_last_update_timestamp_ms=1_700_000_000_000,
        transaction_start_timestamp_ms=-1,
        client_transaction_version=version,
    )
    stored_as = TRANSACTION_TOPIC_TYPES[0]
    key = stored_as.encode_key(0, TransactionKey(transactional_id="y"))
    for value_version in (0, 1) if version == 0 and previous_id == -1 else (1,):
        stored = loaded_from(Record(0, 0, key, stored_as.encode_value(value, value_version))).replayed["y"]
        assert isinstance(stored, bytes) == (state in ENDED and value_version == 1)
        assert (value_of(stored), state_of(stored)) == (value, state)


@given(
    st.text(min_size=1, max_size=200),
    st.builds(
        TransactionValue,
        producer_id=st.integers(-1, 2**63 - 1),
        previous_producer_id=st.integers(-1, 2**63 - 1),
        next_producer_id=st.sampled_from([-1, 5]),
        producer_epoch=st.integers(-1, 2**15 - 1),
        transaction_timeout_ms=st.integers(0, 2**31 - 1),
        transaction_status=st.sampled_from(State),
        transaction_partitions=st.none()
        | st.lists(
            st.builds(TransactionPartitions, topic=st.text(max_size=200), partition_ids=st.lists(st.integers(0, 2**31 - 1)).map(tuple)),
            max_size=3,
        ).map(tuple),
        transaction_last_update_timestamp_ms=st.integers(-1, 2**63 - 1),
        transaction_start_timestamp_ms=st.integers(-1, 2**63 - 1),
        client_transaction_version=st.integers(0, 2),
    ),
)
def test_records_are_written_as_their_schema_says(name: str, value: TransactionValue) -> None:
    batch, _ = frame_batch(encode_records([TransactionRecord(name, value)], 0), 1, timestamp_ms=0)
    (record,) = batch_of_records.decode_batch(batch)
    stored_as = TRANSACTION_TOPIC_TYPES[0]
    assert record.key == stored_as.encode_key(0, TransactionKey(transactional_id=name))
    assert record.value == stored_as.encode_value(value, 1)


def test_records_without_meaning_leave_the_value_before_them() -> None:
    shell = Shell()
    shell.init("x")
    sound = Record(0, 0, *next(decode_batch_of(shell)))
    damaged = [sound._replace(value=sound.value[:-1]), sound._replace(key=sound.key[:-1] + b"\xff"), sound._replace(key=sound.key + b"z")]
    found = loaded_from(sound, *damaged)
    assert list(found.replayed) == ["x"]
    assert len(found.problems) >= 2


def decode_batch_of(shell: Shell) -> Iterator[tuple[bytes, bytes]]:
    batch, _ = frame_batch(encode_records(shell.records, 0), len(shell.records), timestamp_ms=0)
    for record in batch_of_records.decode_batch(batch):
        assert record.key is not None
        assert record.value is not None
        yield record.key, record.value
