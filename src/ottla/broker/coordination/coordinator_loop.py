"""The shell of one group coordinator: command → append → replay → replies → events → timer. It decides nothing.

Records are in the log before the reply that depends on them is sent, and durable state changes only by replaying what the log holds. The
records of all commands of one event-loop batch share an append, unless a command depends on records that are still pending.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.broker.event_loop_batch import EventLoopBatch
from ottla.broker.logs.partition import Partition
from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.groups.commands import AppendFailed, Command, EvictMember, ExpireMember, ExpireOffsets, FinishLoading, ForgetTopics, Resign
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects, Reply
from ottla.core.groups.log.committed_offsets import CommittedOffsets
from ottla.core.groups.log.record_framing import frame_records
from ottla.core.groups.log.reducer import LoadedGroups
from ottla.core.groups.pending_records import READS_NO_OFFSETS
from ottla.core.model import GroupEvent
from ottla.core.records.batch import HEADER_BYTES
from ottla.core.text import printable

log = logging.getLogger(__name__)

SHARED_BYTES_MAX = 1024 * 1024
"""Pending records of this size are appended at once; earlier where the topic's `max.message.bytes` is smaller."""
NOTICES = frozenset({EvictMember, ExpireMember, ExpireOffsets, FinishLoading, ForgetTopics, Resign})


class CoordinatorLoop:
    """One coordinator, its partition of the offsets topic, and its next timer.

    `clock` gives the time of day, which may jump; timers run by `timer_clock`, which does not.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        partition: Partition,
        *,
        clock: Callable[[], int],
        timer_clock: Callable[[], int],
        reply: Callable[[Reply], None],
        fail: Callable[[int, Exception], None],
        on_broken: "Callable[[CoordinatorLoop, Exception], None]",
        publish: Callable[[tuple[GroupEvent, ...]], None],
        event_loop_batch: EventLoopBatch,
    ) -> None:
        self.coordinator = coordinator
        self.partition = partition
        self._clock = clock
        self._timer_clock = timer_clock
        self._reply = reply
        self._fail = fail
        self._on_broken = on_broken
        self._publish = publish
        self._event_loop_batch = event_loop_batch
        self._pending: list[Effects] = []
        self._framed: list[bytes] = []
        self._framed_bytes = 0
        self._framed_bytes_max = 0
        self._framed_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._settings = coordinator.state.settings
        self._next_expiry: asyncio.TimerHandle | None = None

    def start(self, loaded: LoadedGroups) -> None:
        """Serve the groups that were loaded from the log, perhaps by another thread. Records that mean nothing here are logged."""
        for problem in loaded.problems:
            log.error("%s-%d: %s", *self.partition.name, problem)
        if loaded.unknown:
            log.warning("%s-%d: %d records are of types not known here; they stay in the log", *self.partition.name, loaded.unknown)
        self.coordinator.restore(loaded.replayed)
        self.run(FinishLoading())
        self._expire_later()

    def run(self, command: Command) -> None:
        """Decide about one command. Effects without records take place at once, others at the next `flush`.

        The broker's own commands (NOTICES) are flushed before this returns, since their callers rely on it. Parked members are answered by
        a later command or timer. Raises PeerError for a command that no record could hold.
        """
        try:
            if self.coordinator.depends_on_pending(command):
                self.flush()
            effects = self.coordinator.handle(command, now_ms=self._clock(), timer_ms=self._timer_clock())
            if self._pending and self._is_behind(command, effects):
                # As in Kafka, a request is not answered before earlier ones of its group.
                self._pending.append(effects)
            else:
                self._accept(effects)
            if _answers_others(command, effects):
                # Nor before parked ones that it settled.
                self._event_loop_batch.order_responses()
            if type(command) in NOTICES:
                self.flush()
            if effects.timers:
                self._set_timer()
        except PeerError:
            raise
        except Exception as error:
            self._break_off(error)
            raise

    def fast_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The result of a Heartbeat, without a command; None where it needs one (`run`)."""
        if self._pending and self.coordinator.has_pending(group_id):
            return None
        error = self.coordinator.fast_heartbeat(group_id, generation, member_id, instance_id, timer_ms=self._timer_clock())
        if error is not None:
            self._set_timer()
        return error

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

    def _append_and_reply(self, pending: list[Effects]) -> None:
        section, count = b"".join(self._framed), self._framed_count
        self._framed, self._framed_bytes, self._framed_count = [], 0, 0
        try:
            # Before a reply, records must be as durable as the topic's settings ask for; a coordinator does not park replies meanwhile.
            codec = self._settings.offsets_topic_codec
            self.partition.append_framed(section, count, now_ms=self._clock(), codec=codec, bytes_max=self._bytes_max(pending))
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
        self._event_loop_batch.order_responses()
        self._set_timer()

    def resign(self) -> None:
        """Stop: parked members get NOT_COORDINATOR, and look for another coordinator."""
        self.run(Resign())
        self._cancel_timers()

    def _break_off(self, error: Exception, flushing: Sequence[Effects] = ()) -> None:
        """After a bug of ours the state is unknown: end the connections of all waiting requests, since nothing else will answer them."""
        self._cancel_timers()
        waiting = [reply.to for effects in (*flushing, *self._pending) for reply in effects.replies]
        for group in self.coordinator.state.groups.values():
            waiting += group.parked_requests()
        self._pending, self._framed, self._framed_bytes, self._framed_count = [], [], 0, 0
        for reply_to in waiting:
            self._fail(reply_to, error)
        self._on_broken(self, error)

    def _cancel_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next_expiry is not None:
            self._next_expiry.cancel()
            self._next_expiry = None

    def _expire_later(self) -> None:
        # A pass that has not ended continues in the next iteration of the event loop: requests are served in between.
        delay_s = 0 if self.coordinator.is_expiring else self._settings.offsets_retention_check_interval_ms / 1000
        self._next_expiry = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        try:
            self.run(ExpireOffsets())
        finally:
            if self._next_expiry is not None:
                self._expire_later()

    def _is_behind(self, command: Command, effects: Effects) -> bool:
        """Whether a command that is answered at once came after one of the same group that is answered when its records are in the log."""
        return not effects.records and isinstance(command, READS_NO_OFFSETS) and self.coordinator.has_pending(command.group_id)

    def _accept(self, effects: Effects) -> None:
        if not effects.records:
            self._emit(effects)
            return
        framed = frame_records(effects.records, self._framed_count)
        if self._framed_count and self._framed_bytes + len(framed) > self._framed_bytes_max:
            self.flush()
            framed = frame_records(effects.records, 0)
        if not self._pending:
            self._event_loop_batch.flush_later(self.flush)
            self._framed_bytes_max = min(SHARED_BYTES_MAX, self.partition.log.settings.max_message_bytes - HEADER_BYTES)
        self._pending.append(effects)
        self._framed.append(framed)
        self._framed_bytes += len(framed)
        self._framed_count += len(effects.records)
        if self._framed_bytes >= self._framed_bytes_max:
            self.flush()

    def _emit(self, effects: Effects) -> None:
        for reply in effects.replies:
            self._reply(reply)
        if effects.log_lines and log.isEnabledFor(logging.INFO):
            for line in effects.log_lines:
                log.info("%s%s", self.coordinator.log_prefix, printable(line))
        if effects.events:
            self._publish(effects.events)

    def _bytes_max(self, pending: list[Effects]) -> int | None:
        """The largest batch allowed. Many tombstones go into one of any size: no request waits that could be answered with the error."""
        first, *others = [effects.records for effects in pending if effects.records]
        is_bounded = bool(others) or len(first) == 1 or isinstance(first, CommittedOffsets)
        return self.partition.log.settings.max_message_bytes if is_bounded else None

    def _set_timer(self) -> None:
        # A timer that runs early finds nothing to do; setting it again at every heartbeat would cost more.
        due = self.coordinator.next_deadline_ms()
        if due is None or (self._timer is not None and self._timer_at_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, due - self._timer_clock()) / 1000
        self._timer_at_ms = due
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.fire_due_timers)

    def fire_due_timers(self) -> None:
        """Run every timer of the coordinator that is due, and set the next one."""
        self._timer = None
        try:
            while (due := self.coordinator.next_deadline_ms()) is not None and due <= self._timer_clock():
                self.flush()
                self._accept(self.coordinator.fire_timers(now_ms=self._clock(), timer_ms=self._timer_clock()))
                self._event_loop_batch.order_responses()
        except Exception as error:
            self._break_off(error)
            raise
        self._set_timer()


def _answers_others(command: Command, effects: Effects) -> bool:
    """Whether a command has parked requests answered."""
    replies = effects.replies
    return len(replies) > 1 or (len(replies) == 1 and replies[0].to != getattr(command, "reply_to", None))
