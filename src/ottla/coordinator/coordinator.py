"""A coordinator: the runtime that every kind shares, and the hooks in which a kind decides (Kafka: CoordinatorShard).

A command and the time give `Effects`; nothing durable changes yet. The loop appends their records, passes each to `replay`, and only
then sends the replies and publishes the events. If the append fails, the effects come back as `AppendFailed`. Effects of several
commands may share an append, unless a command reads what a pending record changes (`depends_on_pending`).
Only `replay` changes durable state, so a restart runs the same code: replay the log, then `FinishLoading`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Generic, TypeVar

from ottla.coordinator.effects import Effects, EventT, Producer, RecordT, ResultT
from ottla.coordinator.loading import UncommittedBatch
from ottla.coordinator.timers import Timer, Timers
from ottla.protocol.errors import ErrorCode

CommandT = TypeVar("CommandT")
LoadedT = TypeVar("LoadedT")
"""What all records of a coordinator's log replay to."""


class CoordinatorStatus(Enum):
    """LOADING until FinishLoading, then ACTIVE; RESIGNED after Resign, which is final."""

    LOADING = "loading"
    ACTIVE = "active"
    RESIGNED = "resigned"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """The records of `effects` could not be appended: none of them is durable, and the replies were not sent."""

    effects: Effects[Any, Any, Any]
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishLoading:
    """Every record of this coordinator's partition has been replayed: start serving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """Another broker takes the partition: answer parked requests with NOT_COORDINATOR and serve nothing more."""


LifecycleCommand = AppendFailed | FinishLoading | Resign
_LIFECYCLE: Final = frozenset({AppendFailed, FinishLoading, Resign})


class Coordinator(ABC, Generic[CommandT, RecordT, ResultT, EventT, LoadedT]):
    """Coordinates what belongs to one partition of `topic`, for one loop at a time.

    Commands with a `reply_to` are requests, which get a reply; the others are the broker's own. Effects are replayed, or fail, in the order
    in which they were returned, and all of them before a timer or a command that `depends_on_pending`. That is asserted.
    """

    kind: ClassVar[str]
    """What is coordinated, in Kafka's log lines: `group`, `transaction`."""
    topic: ClassVar[str]
    """The topic whose partitions hold the coordinators' records."""
    key_name: ClassVar[str]
    """The field of a command that has its key, by which a coordinator is found; a command without it is about all keys."""
    partial_readers: ClassVar[frozenset[type]] = frozenset()
    """Commands that do not read what records change that are pending as a part of their key (`_changed_keys`)."""
    periodic_command: ClassVar[Any] = None
    """A command that runs every `periodic_delay_ms`, from the end of loading on; None if there is none."""

    __slots__ = ("_pending_count", "_pending_keys", "node_id", "partition", "status", "timers")

    def __init__(self, timers: Timers, *, partition: int, node_id: int) -> None:
        self.timers = timers
        self.partition = partition
        self.node_id = node_id
        self.status = CoordinatorStatus.LOADING
        self._pending_count = 0
        """Records that were handed out and are neither replayed nor failed."""
        self._pending_keys: dict[str, bool] = {}
        """Their keys; whether they change all of the key, or a part that `partial_readers` do not read."""

    @property
    def log_prefix(self) -> str:
        """The prefix of Kafka's log lines for this coordinator."""
        return f"[{self.kind.capitalize()}Coordinator id={self.node_id} topic={self.topic} partition={self.partition}] "

    def handle(
        self, command: CommandT | LifecycleCommand, *, now_ms: int, timer_ms: int | None = None
    ) -> Effects[RecordT, ResultT, EventT]:
        """Handle one command. Raises PeerError, with nothing changed, for strings that no record can hold.

        `now_ms` is the time of day, for records and events. `timer_ms` is the time of a clock that never jumps, by which timers run;
        None if one clock serves as both.
        """
        assert not self.depends_on_pending(command), f"{command} came before what it reads was replayed or failed"
        if timer_ms is None:
            timer_ms = now_ms
        if type(command) in _LIFECYCLE:
            effects = self._change_status(command, now_ms, timer_ms)  # type: ignore[arg-type]
        elif self.status is CoordinatorStatus.ACTIVE:
            effects = self._decide(command, now_ms, timer_ms)  # type: ignore[arg-type]
        else:
            effects = self._refuse(command)  # type: ignore[arg-type]
        if effects.records:
            self._add_pending(effects.records)
        return effects

    def _change_status(self, command: LifecycleCommand, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        if isinstance(command, AppendFailed):
            self._remove_pending(len(command.effects.records))
            effects = self._append_failed(command, now_ms, timer_ms)
            assert not effects.records, "a failed append must not append again"
            return effects
        if isinstance(command, FinishLoading):
            assert self.status is CoordinatorStatus.LOADING, f"loading ends once; this coordinator is {self.status}"
            self.status = CoordinatorStatus.ACTIVE
            return self._finish_loading(now_ms, timer_ms)
        self.status = CoordinatorStatus.RESIGNED
        return self._resign(now_ms, timer_ms)

    # Pending records: several commands share one append, so the next commands are handled before the records of the first are in the log.

    def depends_on_pending(self, command: CommandT | LifecycleCommand) -> bool:
        """Whether the command reads what a pending record changes: it must then wait until that is replayed or has failed."""
        if not self._pending_count:
            return False
        key = getattr(command, self.key_name, None)
        if key is None:
            return not isinstance(command, AppendFailed)
        changes_all = self._pending_keys.get(key)
        return changes_all is not None and (changes_all or type(command) not in self.partial_readers)

    def has_pending(self, key: str) -> bool:
        """Whether an earlier request of this key is answered only when its records are in the log."""
        return self._pending_count > 0 and key in self._pending_keys

    def _add_pending(self, records: Sequence[RecordT]) -> None:
        if not self._pending_count:
            self._pending_keys.clear()
        self._pending_count += len(records)
        for key, changes_all in self._changed_keys(records):
            if changes_all or key not in self._pending_keys:
                self._pending_keys[key] = changes_all

    def _remove_pending(self, count: int) -> None:
        assert self._pending_count >= count, "more records came back than were handed out"
        self._pending_count -= count

    # Replay

    @abstractmethod
    def restore(self, loaded: LoadedT) -> None:
        """While loading: set the state that all records of the log replay to, instead of replaying each."""

    def replay(self, record: RecordT) -> None:
        """Apply a record of the log: every one while loading, later those of the latest effects."""
        if self.status is CoordinatorStatus.ACTIVE:
            self._remove_pending(1)
        self._replay(record)

    def replay_all(self, records: Sequence[RecordT]) -> None:
        """Apply all records of the same effects."""
        for record in records:
            self.replay(record)

    # Records in transactions, for kinds that have them

    def replay_transactional(self, records: Sequence[RecordT], producer: Producer) -> None:
        """Note records of a transaction that has not ended: those of the latest effects, or, while loading, of the log."""
        raise AssertionError(f"{type(self).__name__} writes no records in transactions")

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """The marker of a producer's transaction is in the log: its records take effect, or are forgotten."""
        raise AssertionError(f"{type(self).__name__} writes no records in transactions")

    def restore_open(self, transactions: Sequence[UncommittedBatch]) -> Sequence[str]:
        """While loading, after `restore`: what the log holds of transactions that have not ended. Returns what was skipped and why."""
        raise AssertionError(f"{type(self).__name__} writes no records in transactions")

    # Timers

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due, by the timers' clock; None if none is armed."""
        return self.timers.next_deadline_ms()

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> Effects[RecordT, ResultT, EventT]:
        """Fire the earliest timer that is due, and only that one; empty effects if none is due."""
        assert self._pending_count == 0, "a timer came before the last effects were replayed or failed"
        if timer_ms is None:
            timer_ms = now_ms
        timer = self.timers.pop_due(timer_ms)
        if timer is None:
            return Effects()
        effects = self._fire(timer, now_ms, timer_ms)
        if effects.records:
            self._add_pending(effects.records)
        return effects

    # What a kind of coordinator decides

    @abstractmethod
    def _decide(self, command: CommandT, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        """Handle a command while ACTIVE."""

    @abstractmethod
    def _refuse(self, command: CommandT) -> Effects[RecordT, ResultT, EventT]:
        """Answer a request while not ACTIVE; the broker's own commands have no effects then."""

    @abstractmethod
    def _replay(self, record: RecordT) -> None:
        """Change durable state; while LOADING nothing else exists yet."""

    @abstractmethod
    def _fire(self, timer: Timer, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        """Handle a timer that is due."""

    @abstractmethod
    def _finish_loading(self, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        """Begin to serve what was loaded."""

    @abstractmethod
    def _resign(self, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        """Answer parked requests with NOT_COORDINATOR, and forget everything."""

    @abstractmethod
    def _append_failed(self, failed: AppendFailed, now_ms: int, timer_ms: int) -> Effects[RecordT, ResultT, EventT]:
        """Answer the requests of the failed effects with an error; leave a state from which they can be repeated. No records."""

    @abstractmethod
    def _changed_keys(self, records: Sequence[RecordT]) -> Iterable[tuple[str, bool]]:
        """The keys that these records change, and whether they change more than `partial_readers` leave unread."""

    @abstractmethod
    def parked_requests(self) -> Iterable[int]:
        """The `reply_to` of every parked request."""

    @abstractmethod
    def encode(self, records: Sequence[RecordT], first: int) -> bytes:
        """Records of a batch as bytes, the first of them number `first`."""

    def may_exceed_batch(self, _records: Sequence[RecordT]) -> bool:
        """Whether these records may make a batch larger than the topic's `max.message.bytes`."""
        return False

    def periodic_delay_ms(self) -> int:
        """How long after the last `periodic_command` the next one runs."""
        raise AssertionError(f"{type(self).__name__} has no periodic command")
