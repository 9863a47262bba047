"""The runtime of any coordinator, shown by one of counters: it knows no group."""

import heapq
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from ottla.coordinator.coordinator import AppendFailed, Coordinator, CoordinatorStatus, FinishLoading, Resign
from ottla.coordinator.effects import Context, Effects, Reply
from ottla.coordinator.loading import Loaded, RecordReducer, load
from ottla.coordinator.loop import CoordinatorLoop
from ottla.coordinator.placement import coordinator_partition
from ottla.coordinator.timers import Timer, Timers
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_records
from ottla.protocol.records.compression import Codec

LEASE_MS = 1_000


class CounterRecord(NamedTuple):
    """The new value of a counter; None removes it."""

    key: str
    value: int | None


@dataclass(frozen=True)
class Add:
    """Add to a counter, which is removed LEASE_MS after its last change; the result is its value."""

    reply_to: int
    key: str
    amount: int


@dataclass(frozen=True)
class Read:
    """Read a counter, 0 if there is none."""

    reply_to: int
    key: str


@dataclass(frozen=True)
class Ping:
    """Needs nothing of the counter but its key."""

    reply_to: int
    key: str


@dataclass(frozen=True)
class Await:
    """Wait until the counter is removed."""

    reply_to: int
    key: str


@dataclass(frozen=True)
class Sweep:
    """Runs from time to time; counts itself."""


@dataclass
class Counters:
    """What the coordinator holds; `values` is durable."""

    timers: Timers = field(default_factory=Timers)
    values: dict[str, int] = field(default_factory=dict)
    leases: dict[str, Timer] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    sweeps: int = 0


CounterEffects = Effects[CounterRecord, Any, str]


class CounterCoordinator(Coordinator[Any, CounterRecord, Any, str, dict[str, int]]):
    """Counters, each with a lease that a timer ends."""

    kind, topic, key_name = "counter", "__counters", "key"
    partial_readers = frozenset({Ping})
    periodic_command = Sweep()
    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = Counters()
        super().__init__(self.state.timers, partition=3, node_id=1)

    def _decide(self, command: Any, now_ms: int, timer_ms: int) -> CounterEffects:
        context = self._context(now_ms, timer_ms)
        match command:
            case Add(reply_to, key, amount):
                if amount > 1_000:
                    raise PeerError("no record holds that")
                context.records.append(CounterRecord(key, self.state.values.get(key, 0) + amount))
                context.arm(self.state.leases.setdefault(key, Timer("lease", key)), LEASE_MS)
                context.reply(reply_to, context.records[0].value)
                context.log(f"{key} grows by {amount}")
                context.events.append(f"added {key}")
            case Read(reply_to, key):
                context.reply(reply_to, self.state.values.get(key, 0))
            case Ping(reply_to, _):
                context.reply(reply_to, "pong")
            case Await(reply_to, key):
                self.state.waiting.setdefault(key, []).append(reply_to)
            case Sweep():
                self.state.sweeps += 1
        return context.effects()

    def _refuse(self, command: Any) -> CounterEffects:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.status is CoordinatorStatus.LOADING else ErrorCode.NOT_COORDINATOR
        return Effects(replies=(Reply(to=command.reply_to, result=error),) if hasattr(command, "reply_to") else ())

    def restore(self, loaded: dict[str, int]) -> None:
        self.state.values = loaded

    def _replay(self, record: CounterRecord) -> None:
        if record.value is None:
            self.state.values.pop(record.key, None)
        else:
            self.state.values[record.key] = record.value

    def _fire(self, timer: Timer, now_ms: int, timer_ms: int) -> CounterEffects:
        (key,) = timer.names
        context = self._context(now_ms, timer_ms)
        context.records.append(CounterRecord(key, None))
        for reply_to in self.state.waiting.pop(key, ()):
            context.reply(reply_to, "removed")
        return context.effects()

    def _finish_loading(self, now_ms: int, timer_ms: int) -> CounterEffects:
        context = self._context(now_ms, timer_ms)
        for key in self.state.values:
            self.state.leases[key] = Timer("lease", key)
            context.arm(self.state.leases[key], LEASE_MS)
        return context.effects()

    def _resign(self, now_ms: int, timer_ms: int) -> CounterEffects:
        context = self._context(now_ms, timer_ms)
        for reply_to in self.parked_requests():
            context.reply(reply_to, ErrorCode.NOT_COORDINATOR)
        self.state.waiting.clear()
        return context.effects()

    def _append_failed(self, failed: AppendFailed, now_ms: int, timer_ms: int) -> CounterEffects:
        return Effects(replies=tuple(Reply(to=reply.to, result=failed.error) for reply in failed.effects.replies))

    def _changed_keys(self, records: Sequence[CounterRecord]) -> Iterable[tuple[str, bool]]:
        return [(record.key, record.key not in self.state.values) for record in records]

    def parked_requests(self) -> list[int]:
        return [reply_to for waiting in self.state.waiting.values() for reply_to in waiting]

    def encode(self, records: Sequence[CounterRecord], first: int) -> bytes:
        numbered = [
            Record(number, 0, record.key.encode(), None if record.value is None else b"%d" % record.value)
            for number, record in enumerate(records, first)
        ]
        return bytes(encode_records(numbered, base_offset=0, base_timestamp_ms=0))

    def periodic_delay_ms(self) -> int:
        return 60_000

    def _context(self, now_ms: int, timer_ms: int) -> Context[Counters, CounterRecord, Any, str]:
        return Context(self.state, now_ms, timer_ms)


class CounterReducer(RecordReducer[dict[str, int]]):
    """Reads a log of counters."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, int] = {}

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise PeerError("a record without a key")
        self.values.pop(key.decode(), None)
        if value is not None:
            self.values[key.decode()] = int(value)

    def finish(self) -> Loaded[dict[str, int]]:
        return Loaded(self.values, self.unknown, tuple(self.problems))


class Partition:
    """A log in memory, whose appends are noted and may fail."""

    name = TopicPartition("__counters", 3)

    def __init__(self, journal: list[str]) -> None:
        self.log = PartitionLog(MemoryFiles(), "__counters-3", LogSettings())
        self.log.open(0)
        self.fails = False
        self.limits: list[int | None] = []
        self._journal = journal

    def append_framed(self, section: bytes, count: int, *, now_ms: int, codec: Codec, bytes_max: int | None = None) -> None:
        self._journal.append(f"append {count}")
        self.limits.append(bytes_max)
        if self.fails:
            raise StorageError("the disk is full")
        self.log.append_framed(section, count, now_ms=now_ms, codec=codec, bytes_max=bytes_max)


class Call:
    """A call at a later time."""

    is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Host:
    """A broker in virtual time: one coordinator, its loop and its log; `journal` has what happens, in order."""

    def __init__(self, partition: Partition | None = None) -> None:
        self.now_ms = 0
        self.journal: list[str] = []
        self.partition = partition or Partition(self.journal)
        self.coordinator = CounterCoordinator()
        self._flushes: list[Callable[[], None]] = []
        self._calls: list[tuple[float, int, Call, Callable[[], None]]] = []
        self.loop = CoordinatorLoop(
            self.coordinator, self.partition, codec=Codec.NONE, clock=lambda: self.now_ms, timer_clock=lambda: self.now_ms,
            call_later=self._call_later, batch=self, replies=self, on_broken=lambda _loop, error: self.journal.append(f"broken {error}"),
            publish=lambda events: self.journal.extend(events), log=logging.getLogger("counters"),
        )  # fmt: skip

    def serve(self) -> "Host":
        self.loop.start(load(self.partition.log, CounterReducer))
        return self

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> Call:
        handle = Call()
        heapq.heappush(self._calls, (self.now_ms + delay_s * 1000, len(self._calls), handle, call))
        return handle

    def wait(self, ms: int) -> None:
        """Let time pass; what is due runs at its time."""
        end_ms = self.now_ms + ms
        while self._calls and self._calls[0][0] <= end_ms:
            at_ms, _, handle, call = heapq.heappop(self._calls)
            self.now_ms = max(self.now_ms, int(at_ms))
            if not handle.is_cancelled:
                call()
                self.end_iteration()
        self.now_ms = end_ms

    def run(self, *commands: Any) -> list[str]:
        """Run commands that arrive in one iteration of the event loop; returns what happened."""
        before = len(self.journal)
        for command in commands:
            self.loop.run(command)
        self.end_iteration()
        return self.journal[before:]

    def end_iteration(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush()

    def flush_later(self, flush: Callable[[], None]) -> None:
        self._flushes.append(flush)

    def order_responses(self) -> None:
        pass

    def deliver(self, reply: Reply[Any]) -> None:
        self.journal.append(f"{reply.to}: {reply.result} of {self.coordinator.state.values}")

    def fail(self, reply_to: int, error: Exception) -> None:
        self.journal.append(f"{reply_to} fails: {error}")


@pytest.fixture
def host() -> Host:
    return Host().serve()


def test_records_are_appended_then_replayed_then_the_reply_is_sent_and_the_event_published(host: Host) -> None:
    assert host.run(Add(1, "a", 5)) == ["append 1", "1: 5 of {'a': 5}", "added a"]


def test_commands_of_one_batch_share_an_append(host: Host) -> None:
    host.run(Add(1, "a", 5), Add(2, "b", 1))
    assert host.run(Ping(3, "a"), Read(4, "c")) == ["3: pong of {'a': 5, 'b': 1}", "4: 0 of {'a': 5, 'b': 1}"], "nothing to append"
    assert host.journal[:3] == ["append 2", "1: 5 of {'a': 5, 'b': 1}", "added a"]


def test_a_command_that_reads_what_is_pending_has_it_appended_first(host: Host) -> None:
    assert host.run(Add(1, "a", 5), Read(2, "b"), Add(3, "a", 2))[:4] == ["2: 0 of {}", "append 1", "1: 5 of {'a': 5}", "added a"]
    assert host.journal[4:] == ["append 1", "3: 7 of {'a': 7}", "added a"]


def test_a_partial_reader_need_not_wait_and_is_answered_in_its_keys_order(host: Host) -> None:
    host.run(Add(1, "a", 5))
    assert host.run(Add(2, "a", 1), Ping(3, "b"), Ping(4, "a")) == [
        "3: pong of {'a': 5}", "append 1", "2: 6 of {'a': 6}", "added a", "4: pong of {'a': 6}",
    ]  # fmt: skip
    assert host.run(Add(5, "new", 1), Ping(6, "new"))[0] == "append 1", "all of a new key is pending"


def test_a_failed_append_comes_back_as_a_command_and_changes_nothing(host: Host) -> None:
    host.partition.fails = True
    error = StorageError("").code
    assert host.run(Add(1, "a", 5), Add(2, "b", 1)) == ["append 2", f"1: {error} of {{}}", f"2: {error} of {{}}"]
    host.partition.fails = False
    assert host.run(Add(3, "a", 1)) == ["append 1", "3: 1 of {'a': 1}", "added a"]


def test_work_in_steps_lets_others_in_between_however_long_a_step_takes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run(Add(1, "a", 1))
    timers, lease = host.coordinator.state.timers, host.coordinator.state.leases["a"]
    steps: list[int] = []

    def step(_: CounterCoordinator, *, now_ms: int, timer_ms: int) -> CounterEffects:
        timers.cancel(lease)
        timers.arm(lease, timer_ms + 1)
        steps.append(timer_ms)
        assert len(steps) <= 2, "the loop does not return"
        host.now_ms += 8
        return Effects()

    monkeypatch.setattr(CounterCoordinator, "fire_timers", step)
    host.wait(LEASE_MS)
    assert steps == [LEASE_MS]
    host.wait(8)
    assert steps == [LEASE_MS, LEASE_MS + 8]


def test_a_command_that_no_record_could_hold_is_refused_with_nothing_changed(host: Host) -> None:
    with pytest.raises(PeerError):
        host.loop.run(Add(1, "a", 9_999))
    assert host.run(Read(2, "a")) == ["2: 0 of {}"]


def test_a_coordinator_that_loads_or_resigned_refuses_requests() -> None:
    host = Host()
    assert host.run(Read(1, "a")) == [f"1: {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} of {{}}"]
    assert host.run(Sweep()) == []
    host.serve()
    host.loop.resign()
    assert host.run(Read(2, "a")) == [f"2: {ErrorCode.NOT_COORDINATOR} of {{}}"]


def test_a_restart_replays_the_log_and_runs_the_same_code(host: Host) -> None:
    host.run(Add(1, "a", 5), Add(2, "b", 1))
    host.run(Add(3, "a", 2))
    second = Host(host.partition).serve()
    assert second.coordinator.state.values == host.coordinator.state.values == {"a": 7, "b": 1}
    assert second.coordinator.next_deadline_ms() == LEASE_MS, "soft state is made from what is durable"
    assert second.partition.limits == [second.partition.log.settings.max_message_bytes] * 2


def test_timers_fire_by_virtual_time_and_their_records_are_stored_too(host: Host) -> None:
    host.run(Add(1, "a", 5))
    host.wait(600)
    host.run(Add(2, "a", 1), Await(3, "a"))
    host.journal.clear()
    host.wait(999)
    assert host.journal == []
    host.wait(1)
    assert host.journal == ["append 1", "3: removed of {}"]
    assert host.coordinator.next_deadline_ms() is None


def test_resigning_answers_what_is_parked_and_stops_timers(host: Host) -> None:
    host.run(Add(1, "a", 5), Await(2, "a"))
    host.journal.clear()
    host.loop.resign()
    assert host.journal == [f"2: {ErrorCode.NOT_COORDINATOR} of {{'a': 5}}"]
    host.wait(100_000)
    assert (len(host.journal), host.coordinator.state.sweeps) == (1, 0)


def test_the_periodic_command_runs_from_the_end_of_loading_on() -> None:
    host = Host()
    host.wait(60_000)
    host.serve()
    host.wait(119_999)
    assert host.coordinator.state.sweeps == 1
    host.wait(1)
    assert host.coordinator.state.sweeps == 2


def test_after_a_bug_every_waiting_request_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run(Add(1, "a", 5), Await(2, "a"))
    monkeypatch.setattr(Partition, "append_framed", lambda *_, **_more: 1 / 0)
    host.loop.run(Add(3, "b", 1))
    with pytest.raises(ZeroDivisionError):
        host.end_iteration()
    assert host.journal[-3:] == ["3 fails: division by zero", "2 fails: division by zero", "broken division by zero"]


def test_records_without_meaning_are_passed_over_and_named(caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    host.partition.log.append_records([Record(0, 0, None, b"1"), Record(0, 0, b"a", b"2")], now_ms=0)
    host.serve()
    assert "__counters-3: the record at offset 0 is passed over: a record without a key" in caplog.text
    assert host.coordinator.state.values == {"a": 2}


def test_log_lines_have_kafkas_prefix_and_cannot_be_forged(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "counters")
    host.run(Add(1, "a\nERROR", 5))
    assert caplog.messages == ["[CounterCoordinator id=1 topic=__counters partition=3] a\\nERROR grows by 5"]


def test_what_is_out_of_order_fails_an_assertion() -> None:
    coordinator = CounterCoordinator()
    coordinator.handle(FinishLoading(), now_ms=0)
    effects = coordinator.handle(Add(1, "a", 1), now_ms=0)
    for early in (lambda: coordinator.handle(Read(2, "a"), now_ms=0), lambda: coordinator.fire_timers(now_ms=9_999)):
        with pytest.raises(AssertionError):
            early()
    assert not coordinator.depends_on_pending(AppendFailed(effects=effects, error=ErrorCode.KAFKA_STORAGE_ERROR))
    assert coordinator.depends_on_pending(Resign())
    assert coordinator.has_pending("a")
    assert not coordinator.has_pending("b")
    coordinator.replay_all(effects.records)
    assert not coordinator.has_pending("a")
    with pytest.raises(AssertionError):
        coordinator.replay(effects.records[0])
    with pytest.raises(AssertionError):
        coordinator.handle(FinishLoading(), now_ms=0)


def test_a_key_belongs_to_one_partition_of_the_topic() -> None:
    assert {coordinator_partition(f"counter-{number}", 4) for number in range(50)} == {0, 1, 2, 3}
