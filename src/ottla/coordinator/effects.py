"""The effects of a command or timer: records to append, then replies to send and events to publish.

`timers` are those that the command armed, for traces and scenario files: a coordinator runs its own timers.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, overload

from ottla.coordinator.timers import Timer, Timers

RecordT = TypeVar("RecordT")
ResultT = TypeVar("ResultT")
EventT = TypeVar("EventT")
T_co = TypeVar("T_co", covariant=True)


class LazySequence(Sequence[T_co], Generic[T_co]):
    """The tuple that `_make` returns: same items, same order, equal to it. Each access calls `_make`, so pass it on rather than read it."""

    __slots__ = ()

    @abstractmethod
    def _make(self) -> tuple[T_co, ...]:
        """All items."""

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, at: int | slice) -> T_co | tuple[T_co, ...]:
        return self._make()[at]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._make())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazySequence):
            return self._make() == other._make()
        return isinstance(other, tuple) and self._make() == other

    def __hash__(self) -> int:
        return hash(self._make())

    def __repr__(self) -> str:
        return repr(self._make())


# Results and effects of the hot path are not frozen, since that makes their creation several times slower. They are not changed.


@dataclass(slots=True, kw_only=True)
class Reply(Generic[ResultT]):
    """The response to the command whose `reply_to` is `to`."""

    to: int
    result: ResultT


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerSet:
    """A timer that a command armed: its purpose, and when it is due."""

    key: str
    at_ms: int


class ArmedTimers(LazySequence[TimerSet]):
    """Timers with the times that they were armed for; only traces and scenario files read them."""

    __slots__ = ("_armed",)

    def __init__(self, armed: Sequence[tuple[Timer, int]]) -> None:
        self._armed = armed

    def __len__(self) -> int:
        return len(self._armed)

    def _make(self) -> tuple[TimerSet, ...]:
        return tuple(TimerSet(key=timer.key, at_ms=at_ms) for timer, at_ms in self._armed)


class Producer(NamedTuple):
    """A producer in whose transaction records are."""

    id: int
    epoch: int


@dataclass(slots=True, kw_only=True)
class Effects(Generic[RecordT, ResultT, EventT]):
    """What is done for one command: append `records` in one batch, replay them, send `replies`, publish `events`.

    `records` and `timers` may be LazySequences.
    `log_lines` are Kafka's own, as people search for them; `Coordinator.log_prefix` is put before each.
    `producer`: the records belong to its transaction; they get a batch of their own, and take effect when the transaction ends.
    """

    records: Sequence[RecordT] = ()
    replies: tuple[Reply[ResultT], ...] = ()
    events: tuple[EventT, ...] = ()
    timers: Sequence[TimerSet] = ()
    log_lines: tuple[str, ...] = ()
    producer: Producer | None = None


NO_EFFECTS: Final[Effects[Any, Any, Any]] = Effects()
"""The effects of a request that is parked."""


class State(Protocol):
    """What a coordinator holds, as far as a context needs it."""

    @property
    def timers(self) -> Timers:
        """All timers of the coordinator."""
        ...


StateT = TypeVar("StateT", bound=State)


class Context(Generic[StateT, RecordT, ResultT, EventT]):
    """The context in which one command is handled: the state, the time, and the effects collected so far.

    Handlers change soft state and collect effects; they change nothing durable. `now_ms` is the time of day, for records and events;
    `timer_ms` is the time of the timers' clock.
    """

    __slots__ = ("_armed", "events", "log_lines", "now_ms", "producer", "records", "records_on_demand", "replies", "state", "timer_ms")

    def __init__(self, state: StateT, now_ms: int, timer_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.timer_ms = timer_ms
        self.records: list[RecordT] = []
        self.records_on_demand: LazySequence[RecordT] | None = None
        """Many records of one kind, in place of `records`."""
        self.replies: list[Reply[ResultT]] = []
        self.events: list[EventT] = []
        self.log_lines: list[str] = []
        self.producer: Producer | None = None
        self._armed: list[Timer] = []

    def reply(self, to: int, result: ResultT) -> None:
        """Answer request `to` once the records are stored."""
        self.replies.append(Reply(to=to, result=result))

    def log(self, line: str) -> None:
        """Add one of Kafka's own log lines, without its prefix."""
        self.log_lines.append(line)

    def arm(self, timer: Timer, delay_ms: int) -> None:
        """Make a timer fire in `delay_ms`."""
        self.state.timers.arm(timer, self.timer_ms + delay_ms)
        self._armed.append(timer)

    def cancel(self, timer: Timer) -> None:
        """Disarm a timer."""
        self.state.timers.cancel(timer)

    def effects(self) -> Effects[RecordT, ResultT, EventT]:
        """The effects collected."""
        on_demand = self.records_on_demand
        assert on_demand is None or not self.records, "records of both kinds would have no order"
        if not (self.replies or self.records or self._armed or self.events or self.log_lines or on_demand is not None):
            return NO_EFFECTS
        return Effects(
            records=tuple(self.records) if on_demand is None else on_demand,
            replies=tuple(self.replies),
            events=tuple(self.events),
            timers=ArmedTimers([(timer, timer.at_ms) for timer in self._armed if timer.at_ms is not None]) if self._armed else (),
            log_lines=tuple(self.log_lines),
            producer=self.producer,
        )
