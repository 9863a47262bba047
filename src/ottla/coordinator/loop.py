"""The loop of one coordinator: command → append → replay → replies → events → timer. It decides nothing, and waits for nothing itself.

Records are in the log before the reply that depends on them is sent, and durable state changes only by replaying what the log holds. The
records of all commands of one event-loop batch share an append, unless a command depends on records that are still pending.

`CoordinatorService` is one kind of coordinator as a broker runs it: what all its partitions have in common, and the answers where no
coordinator runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from logging import INFO, Logger
from typing import Any, Generic, Protocol, TypeVar

from ottla.coordinator.coordinator import AppendFailed, Coordinator, CoordinatorStatus, FinishLoading, Resign
from ottla.coordinator.effects import Effects, Producer, Reply
from ottla.coordinator.loading import Loaded, Reducer
from ottla.log.append import Appended, LogRefusal
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.model import TopicPartition
from ottla.protocol.records.batch import HEADER_BYTES
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, EndMarker
from ottla.text import printable

SHARED_BYTES_MAX = 1024 * 1024
"""Pending records of this size are appended at once; earlier where the topic's `max.message.bytes` is smaller."""

AnyCoordinator = Coordinator[Any, Any, Any, Any, Any]
AnyEffects = Effects[Any, Any, Any]
CoordinatorT = TypeVar("CoordinatorT", bound=AnyCoordinator)


class Partition(Protocol):
    """The partition of a coordinators' topic that one coordinator writes."""

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""
        ...

    @property
    def log(self) -> PartitionLog:
        """Its log."""
        ...

    def append_framed(self, section: bytes, count: int, *, now_ms: int, codec: Codec, bytes_max: int | None = None) -> None:
        """Append encoded records as one batch, as durable as the topic's settings ask for. Raises StorageError."""

    def append_transactional(
        self, section: bytes, count: int, *, producer_id: int, producer_epoch: int, now_ms: int
    ) -> Appended | LogRefusal:
        """Append encoded records of a producer's transaction. Raises StorageError."""
        ...

    def append_marker(
        self, marker: EndMarker, *, producer_id: int, producer_epoch: int, is_bumped: bool, now_ms: int
    ) -> Appended | LogRefusal:
        """Append the end of a producer's transaction. Raises StorageError."""
        ...


class Batch(Protocol):
    """What is done at the end of an iteration of the event loop."""

    def flush_later(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of the iteration."""

    def order_responses(self) -> None:
        """Have the next responses written behind those to the parked requests that were answered."""


class Replies(Protocol):
    """Where replies go."""

    def deliver(self, reply: Reply[Any]) -> None:
        """Pass a reply on."""

    def fail(self, reply_to: int, error: Exception) -> None:
        """End the connection of a request that will get no reply."""


class Handle(Protocol):
    """A call at a later time."""

    def cancel(self) -> None:
        """It is not made."""


CallLater = Callable[[float, Callable[[], None]], Handle]
"""Calls a function after some seconds, as `asyncio.loop.call_later`."""


class CoordinatorLoop(Generic[CoordinatorT]):
    """One coordinator, its partition of the topic, and its next timer.

    `clock` gives the time of day, which may jump; timers run by `timer_clock`, which does not.
    """

    def __init__(
        self,
        coordinator: CoordinatorT,
        partition: Partition,
        *,
        codec: Codec,
        clock: Callable[[], int],
        timer_clock: Callable[[], int],
        call_later: CallLater,
        batch: Batch,
        replies: Replies,
        publish: Callable[[tuple[Any, ...]], None],
        on_broken: "Callable[[CoordinatorLoop[CoordinatorT], Exception], None]",
        log: Logger,
    ) -> None:
        self.coordinator = coordinator
        self.partition = partition
        self._codec = codec
        self._clock = clock
        self._timer_clock = timer_clock
        self._call_later = call_later
        self._batch = batch
        self._replies = replies
        self._publish = publish
        self._on_broken = on_broken
        self._log = log
        self._pending: list[AnyEffects] = []
        self._framed: list[bytes] = []
        self._framed_bytes = 0
        self._framed_bytes_max = 0
        self._framed_count = 0
        self._timer: Handle | None = None
        self._timer_at_ms = 0
        self._periodic: Handle | None = None

    def start(self, loaded: Loaded[Any]) -> None:
        """Serve what was loaded from the log, perhaps by another thread. Records that mean nothing here are logged."""
        if loaded.unknown:
            self._log.warning("%s-%d: %d records are of types not known here; they stay in the log", *self.partition.name, loaded.unknown)
        self.coordinator.restore(loaded.replayed)
        problems = [*loaded.problems]
        if loaded.open_transactions:
            problems += self.coordinator.restore_open(loaded.open_transactions)
        for problem in problems:
            self._log.error("%s-%d: %s", *self.partition.name, problem)
        self.run(FinishLoading())
        self._run_later()

    def run(self, command: Any) -> None:
        """Decide about one command. Effects without records take place at once, others at the next `flush`.

        The broker's own commands are flushed before this returns, since their callers rely on it. Parked requests are answered by
        a later command or timer. Raises PeerError for a command that no record could hold.
        """
        try:
            if self.coordinator.depends_on_pending(command):
                self.flush()
            effects = self.coordinator.handle(command, now_ms=self._clock(), timer_ms=self._timer_clock())
            if self._pending and not effects.records and self._is_behind(command):
                # As in Kafka, a request is not answered before earlier ones of its key.
                self._pending.append(effects)
            else:
                self._accept(effects)
            reply_to = getattr(command, "reply_to", None)
            replies = effects.replies
            if len(replies) > 1 or (len(replies) == 1 and replies[0].to != reply_to):
                # Nor before parked ones that it settled.
                self._batch.order_responses()
            if reply_to is None:
                self.flush()
            if effects.timers:
                self.set_timer()
        except PeerError:
            raise
        except Exception as error:
            self._break_off(error)
            raise

    def flush(self) -> None:
        """Append all pending records as one batch, replay them and send the replies; replies say so if the append failed."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        try:
            self._append_and_reply(pending)
        except Exception as error:
            self._break_off(error, pending)
            raise

    def _append_and_reply(self, pending: list[AnyEffects]) -> None:
        section, count = b"".join(self._framed), self._framed_count
        self._framed, self._framed_bytes, self._framed_count = [], 0, 0
        try:
            # Before a reply, records must be as durable as the topic's settings ask for; a coordinator does not park replies meanwhile.
            bytes_max = self._bytes_max(pending)
            self.partition.append_framed(section, count, now_ms=self._clock(), codec=self._codec, bytes_max=bytes_max)
        except StorageError as error:
            for effects in pending:
                failed = AppendFailed(effects=effects, error=error.code)
                context = {"now_ms": self._clock(), "timer_ms": self._timer_clock()}
                self._emit(self.coordinator.handle(failed, **context) if effects.records else effects)
        else:
            for effects in pending:
                self.coordinator.replay_all(effects.records)
            for effects in pending:
                self._emit(effects)
        self._batch.order_responses()
        self.set_timer()

    def _append_transactional(self, effects: AnyEffects, producer: Producer) -> None:
        """Append the records of a transaction, and reply. As in Kafka, they wait for no others."""
        self.flush()
        section = self.coordinator.encode(effects.records, 0)
        try:
            outcome = self.partition.append_transactional(
                section, len(effects.records), producer_id=producer.id, producer_epoch=producer.epoch, now_ms=self._clock()
            )
            error = outcome.error if isinstance(outcome, LogRefusal) else ErrorCode.NONE
        except StorageError as failure:
            error = failure.code
        if error is ErrorCode.NONE:
            self.coordinator.replay_transactional(effects.records, producer)
            self._emit(effects)
        else:
            failed = AppendFailed(effects=effects, error=error)
            self._emit(self.coordinator.handle(failed, now_ms=self._clock(), timer_ms=self._timer_clock()))

    def end_transaction(self, marker: EndMarker, *, producer_id: int, producer_epoch: int, is_bumped: bool) -> ErrorCode:
        """Append the end of a producer's transaction, whose records take effect if it was committed; the error where it is refused."""
        try:
            self.flush()
            outcome = self.partition.append_marker(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, is_bumped=is_bumped, now_ms=self._clock()
            )
        except StorageError as error:
            return error.code
        if isinstance(outcome, LogRefusal):
            return outcome.error
        try:
            self.coordinator.end_transaction(producer_id, commits=marker.type is ControlType.COMMIT)
        except Exception as error:
            self._break_off(error)
            raise
        return ErrorCode.NONE

    def resign(self) -> None:
        """Stop: parked requests get NOT_COORDINATOR, and their clients look for another coordinator."""
        self.run(Resign())
        self._cancel_timers()

    def _break_off(self, error: Exception, flushing: Sequence[AnyEffects] = ()) -> None:
        """After a bug of ours the state is unknown: end the connections of all waiting requests, since nothing else will answer them."""
        self._cancel_timers()
        waiting = [reply.to for effects in (*flushing, *self._pending) for reply in effects.replies]
        waiting += self.coordinator.parked_requests()
        self._pending, self._framed, self._framed_bytes, self._framed_count = [], [], 0, 0
        for reply_to in waiting:
            self._replies.fail(reply_to, error)
        self._on_broken(self, error)

    def _cancel_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._periodic is not None:
            self._periodic.cancel()
            self._periodic = None

    def _run_later(self) -> None:
        if self.coordinator.periodic_command is not None:
            self._periodic = self._call_later(self.coordinator.periodic_delay_ms() / 1000, self._run_periodic)

    def _run_periodic(self) -> None:
        try:
            self.run(self.coordinator.periodic_command)
        finally:
            if self._periodic is not None:
                self._run_later()

    def _is_behind(self, command: Any) -> bool:
        """Whether a command that is answered at once came after one of the same key that is answered when its records are in the log."""
        key = getattr(command, self.coordinator.key_name, None)
        return key is not None and self.coordinator.has_pending(key)

    def _accept(self, effects: AnyEffects) -> None:
        if not effects.records:
            self._emit(effects)
            return
        if effects.producer is not None:
            self._append_transactional(effects, effects.producer)
            return
        framed = self.coordinator.encode(effects.records, self._framed_count)
        if self._framed_count and self._framed_bytes + len(framed) > self._framed_bytes_max:
            self.flush()
            framed = self.coordinator.encode(effects.records, 0)
        if not self._pending:
            self._batch.flush_later(self.flush)
            self._framed_bytes_max = min(SHARED_BYTES_MAX, self.partition.log.settings.max_message_bytes - HEADER_BYTES)
        self._pending.append(effects)
        self._framed.append(framed)
        self._framed_bytes += len(framed)
        self._framed_count += len(effects.records)
        if self._framed_bytes >= self._framed_bytes_max:
            self.flush()

    def _emit(self, effects: AnyEffects) -> None:
        for reply in effects.replies:
            self._replies.deliver(reply)
        if effects.log_lines and self._log.isEnabledFor(INFO):
            for line in effects.log_lines:
                self._log.info("%s%s", self.coordinator.log_prefix, printable(line))
        if effects.events:
            self._publish(effects.events)

    def _bytes_max(self, pending: list[AnyEffects]) -> int | None:
        """The largest batch allowed."""
        first, *others = [effects.records for effects in pending if effects.records]
        is_bounded = bool(others) or not self.coordinator.may_exceed_batch(first)
        return self.partition.log.settings.max_message_bytes if is_bounded else None

    def set_timer(self) -> None:
        """Have the coordinator's next timer fire when it is due."""
        # A timer that runs early finds nothing to do; setting it again at every heartbeat would cost more.
        due = self.coordinator.next_deadline_ms()
        if due is None or (self._timer is not None and self._timer_at_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, due - self._timer_clock()) / 1000
        self._timer_at_ms = due
        self._timer = self._call_later(delay_s, self.fire_due_timers)

    def fire_due_timers(self) -> None:
        """Run every timer of the coordinator that is due, and set the next one.

        One that becomes due meanwhile waits for the next turn: work in steps that are longer than the time between them would not end.
        """
        self._timer = None
        now_ms = self._timer_clock()
        try:
            while (due := self.coordinator.next_deadline_ms()) is not None and due <= now_ms:
                self.flush()
                self._accept(self.coordinator.fire_timers(now_ms=self._clock(), timer_ms=self._timer_clock()))
                self._batch.order_responses()
        except Exception as error:
            self._break_off(error)
            raise
        self.set_timer()


class CoordinatorService(ABC, Generic[CoordinatorT]):
    """The groups, or the transactions, of one broker (Kafka: `GroupCoordinatorService`)."""

    coordinator_type: type[CoordinatorT]
    codec: Codec
    """Of the batches that coordinators write."""

    @abstractmethod
    def create(self, *, partition: int, node_id: int, leader_epoch: int) -> CoordinatorT:
        """A coordinator whose log is not loaded yet."""

    @abstractmethod
    def reducer(self, log_bytes: int) -> Reducer[Any]:
        """The reducer of one log, where `log_bytes` are to be loaded in total. In any thread; may block it."""

    @abstractmethod
    def refusal(self, command: Any, status: CoordinatorStatus) -> Any:
        """The result of a request at a coordinator of this status, which is not ACTIVE."""

    @abstractmethod
    def error_result(self, command: Any, error: ErrorCode) -> Any:
        """The request's result with `error`."""
