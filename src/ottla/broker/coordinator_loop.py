"""The shell of one group coordinator: command → append → replay → replies → events → timer. It decides nothing.

The order is the law: what a reply says is in the log before the reply goes out, and what the coordinator remembers is what its log says.
What the commands of one turn of the event loop store shares one append, unless one of them would read what another one stores.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.broker.partitions import Partition
from ottla.broker.turn import Turn
from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.groups.commands import AppendFailed, Command, ExpireOffsets, FinishLoading, ForgetTopics, Resign
from ottla.core.groups.committed import CommittedOffsets
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects, Reply
from ottla.core.groups.log_fold import LoadedGroups
from ottla.core.groups.offset_frames import frame_records
from ottla.core.model import GroupEvent
from ottla.core.records.batch import HEADER_BYTES
from ottla.core.text import printable

log = logging.getLogger("ottla.broker.coordinator")

SHARED_BYTES_MAX = 1024 * 1024
"""As soon as so much is to be appended, it is; earlier where the topic's `max.message.bytes` is smaller."""
NOTICES = frozenset({ExpireOffsets, FinishLoading, ForgetTopics, Resign})


class CoordinatorLoop:
    """One coordinator, the partition of the offsets topic it lives in, and its next wake-up.

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
        broken: "Callable[[CoordinatorLoop, Exception], None]",
        publish: Callable[[tuple[GroupEvent, ...]], None],
        turn: Turn,
    ) -> None:
        self.coordinator = coordinator
        self.partition = partition
        self._clock = clock
        self._timer_clock = timer_clock
        self._reply = reply
        self._fail = fail
        self._broken = broken
        self._publish = publish
        self._turn = turn
        self._unsettled: list[Effects] = []
        self._framed: list[bytes] = []
        self._framed_bytes = 0
        self._framed_count = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at_ms = 0
        self._settings = coordinator.registry.settings
        self._next_expiry: asyncio.TimerHandle | None = None

    def begin(self, loaded: LoadedGroups) -> None:
        """Serves with what the log came to, which may have been read on another thread. What of it means nothing here is logged."""
        for problem in loaded.problems:
            log.error("%s-%d: %s", *self.partition.name, problem)
        if loaded.unknown:
            log.warning("%s-%d: %d records are of types not known here; they stay in the log", *self.partition.name, loaded.unknown)
        self.coordinator.begin(loaded.durable)
        self.run(FinishLoading())
        self._expire_later()

    def run(self, command: Command) -> None:
        """Decides about one command. What stores nothing is told at once, the rest at the end of the turn, or before who would read it.

        What the broker itself says is done when this returns, since whoever says so counts on it.
        Parked members are answered by a later command or timer. Raises PeerError for a command that no record could hold.
        """
        try:
            if self.coordinator.must_settle_before(command):
                self.settle()
            effects = self.coordinator.handle(command, now_ms=self._clock(), timer_ms=self._timer_clock())
            self._take(effects)
            if type(command) in NOTICES:
                self.settle()
            if effects.timers:
                self._set_alarm()
        except PeerError:
            raise
        except Exception as error:
            self._give_up(error)
            raise

    def beat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The answer to a Heartbeat, or None: then it must be `run`."""
        error = self.coordinator.beat(group_id, generation, member_id, instance_id, timer_ms=self._timer_clock())
        if error is not None:
            self._set_alarm()
        return error

    def settle(self) -> None:
        """Appends everything that was decided so far, in one batch, and tells what has come true; or else that it has not."""
        steps, self._unsettled = self._unsettled, []
        if not steps:
            return
        try:
            self._settle(steps)
        except Exception as error:
            self._give_up(error, steps)
            raise

    def _settle(self, steps: list[Effects]) -> None:
        section, count = b"".join(self._framed), self._framed_count
        self._framed, self._framed_bytes, self._framed_count = [], 0, 0
        try:
            self._append(section, count, bytes_max=self._bytes_max(steps))
        except StorageError as error:
            self.partition.report(error)
            for step in steps:
                failed = AppendFailed(effects=step, error=error.code)
                self._tell(self.coordinator.handle(failed, now_ms=self._clock(), timer_ms=self._timer_clock()))
        else:
            for step in steps:
                self.coordinator.replay_all(step.records)
            self.partition.grew()
            for step in steps:
                self._tell(step)
        self._set_alarm()

    def close(self) -> None:
        """Stops: parked members are told to look elsewhere."""
        self.run(Resign())
        self._stop_clocks()

    def _give_up(self, error: Exception, settling: Sequence[Effects] = ()) -> None:
        """After a mistake of ours nobody knows what is true here: ends the connections of all who wait, since nobody else would."""
        self._stop_clocks()
        waiting = [reply.to for step in (*settling, *self._unsettled) for reply in step.replies]
        for group in self.coordinator.registry.groups.values():
            waiting += [to for member in group.members.values() for to in (member.awaiting_join, member.awaiting_sync) if to is not None]
        self._unsettled, self._framed, self._framed_bytes, self._framed_count = [], [], 0, 0
        for reply_to in waiting:
            self._fail(reply_to, error)
        self._broken(self, error)

    def _stop_clocks(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._next_expiry is not None:
            self._next_expiry.cancel()
            self._next_expiry = None

    def _expire_later(self) -> None:
        # A pass that is under way goes on in the next turn of the event loop: requests are served in between.
        delay_s = 0 if self.coordinator.is_expiring else self._settings.offsets_retention_check_interval_ms / 1000
        self._next_expiry = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        try:
            self.run(ExpireOffsets())
        finally:
            if self._next_expiry is not None:
                self._expire_later()

    def _take(self, effects: Effects) -> None:
        if not effects.records:
            self._tell(effects)
            return
        framed = frame_records(effects.records, self._framed_count)
        bytes_max = min(SHARED_BYTES_MAX, self.partition.log.settings.max_message_bytes - HEADER_BYTES)
        if self._framed_count and self._framed_bytes + len(framed) > bytes_max:
            self.settle()
            framed = frame_records(effects.records, 0)
        if not self._unsettled:
            self._turn.settle_later(self.settle)
        self._unsettled.append(effects)
        self._framed.append(framed)
        self._framed_bytes += len(framed)
        self._framed_count += len(effects.records)
        if self._framed_bytes >= bytes_max:
            self.settle()

    def _tell(self, effects: Effects) -> None:
        for reply in effects.replies:
            self._reply(reply)
        if effects.log_lines and log.isEnabledFor(logging.INFO):
            for line in effects.log_lines:
                log.info("%s%s", self.coordinator.log_prefix, printable(line))
        if effects.events:
            self._publish(effects.events)

    def _bytes_max(self, steps: list[Effects]) -> int | None:
        """How large a batch may be. Many tombstones go into one, whatever its size: no request waits that could get the error."""
        records = steps[0].records
        is_bounded = len(steps) > 1 or len(records) == 1 or isinstance(records, CommittedOffsets)
        return self.partition.log.settings.max_message_bytes if is_bounded else None

    def _append(self, section: bytes, count: int, *, bytes_max: int | None) -> None:
        codec = self._settings.offsets_topic_codec
        self.partition.log.append_framed(section, count, now_ms=self._clock(), codec=codec, bytes_max=bytes_max)
        # What a reply says must be as durable as the topic's settings ask for; a coordinator has nobody to let wait meanwhile.
        self.partition.make_durable()

    def _set_alarm(self) -> None:
        # An alarm that rings early only finds nothing to do; re-arming it at every heartbeat would cost more.
        due = self.coordinator.next_deadline_ms()
        if due is None or (self._alarm is not None and self._alarm_at_ms <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = max(0, due - self._timer_clock()) / 1000
        self._alarm_at_ms = due
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        try:
            while (due := self.coordinator.next_deadline_ms()) is not None and due <= self._timer_clock():
                self.settle()
                self._take(self.coordinator.fire_timers(now_ms=self._clock(), timer_ms=self._timer_clock()))
        except Exception as error:
            self._give_up(error)
            raise
        self._set_alarm()
