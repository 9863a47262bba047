"""The transaction coordinator without I/O: epochs, producers, timeouts, loading."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.coordinator import AppendFailed, FinishLoading, Resign
from ottla.coordinator.loading import CheckedBatches
from ottla.metadata.topics import TRANSACTION_STATE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.batch import frame_batch
from ottla.transactions.commands import (
    AbortTimedOut,
    AddPartitions,
    CompleteTransaction,
    DescribeTransaction,
    EndTxn,
    InitProducerId,
    MarkersDue,
)
from ottla.transactions.coordinator import EXHAUSTED_EPOCH, NEVER_MS, TransactionCoordinator, TransactionSettings
from ottla.transactions.records import TransactionRecord, TransactionReducer, encode_records
from ottla.transactions.states import State

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
        """All markers are written."""
        due, self.due = self.due, []
        for each in due:
            named = {"producer_id": each.producer_id, "producer_epoch": each.producer_epoch}
            self.run(CompleteTransaction(transactional_id=each.transactional_id, **named))

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


def test_a_producer_without_epochs_gets_a_new_id_when_it_begins(shell: Shell) -> None:
    producer = with_epoch(shell, EXHAUSTED_EPOCH)
    known = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    begun = shell.init(**known)
    assert (begun.producer_id, begun.producer_epoch) == (1, 0)
    repeated = shell.init(**known)
    assert (repeated.producer_id, repeated.producer_epoch) == (1, 0)


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
def test_a_failed_append_changes_nothing(shell: Shell, failed: ErrorCode, said: ErrorCode) -> None:
    producer = shell.init()
    shell.add(producer)
    before = shell.state()
    shell.error = failed
    assert shell.end(producer).error is said
    assert (shell.state(), shell.due) == (before, [])
    assert shell.end(producer).error is ErrorCode.NONE


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
