"""The shell of one group coordinator: command → append → replay → replies → events → timer. It decides nothing.

The order is the law: what a reply says is in the log before the reply goes out, and what the coordinator remembers is what its log says.
"""

import asyncio
import logging
from collections.abc import Callable

from ottla.broker.group_loading import load_groups
from ottla.broker.partitions import Partition
from ottla.core.errors import StorageError
from ottla.core.groups.commands import AppendFailed, Command, ExpireOffsets, FinishLoading, Resign
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects, Reply
from ottla.core.groups.log_fold import Lane, LoadedGroups, PlainFold
from ottla.core.groups.records import encode_key, encode_value
from ottla.core.model import GroupEvent, Record

log = logging.getLogger("ottla.broker.coordinator")


class CoordinatorLoop:
    """One coordinator, the partition of the offsets topic it lives in, and its next wake-up."""

    def __init__(
        self,
        coordinator: Coordinator,
        partition: Partition,
        *,
        clock: Callable[[], int],
        reply: Callable[[Reply], None],
        publish: Callable[[tuple[GroupEvent, ...]], None],
    ) -> None:
        self.coordinator = coordinator
        self.partition = partition
        self._clock = clock
        self._reply = reply
        self._publish = publish
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at_ms = 0
        self._settings = coordinator.registry.settings
        self._next_expiry: asyncio.TimerHandle | None = None

    def load(self, lane: Lane = PlainFold) -> None:
        """Reads the partition from its start, here and now, then serves. Raises StorageError when its log cannot be read."""
        self.begin(load_groups(self.partition.log, lane))

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
        """Takes one command to its end, replies included; parked members are answered by a later command or timer."""
        self._carry_out(self.coordinator.handle(command, now_ms=self._clock()))
        self._set_alarm()

    def close(self) -> None:
        """Stops: parked members are told to look elsewhere."""
        self.run(Resign())
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

    def _carry_out(self, effects: Effects) -> None:
        if effects.records:
            try:
                self._append(effects)
            except StorageError as error:
                self.partition.report(error)
                failed = AppendFailed(effects=effects, error=error.code)
                self._carry_out(self.coordinator.handle(failed, now_ms=self._clock()))
                return
            for record in effects.records:
                self.coordinator.replay(record)
            self.partition.grew()
        for reply in effects.replies:
            self._reply(reply)
        for line in effects.log_lines:
            log.info("%s%s", self.coordinator.log_prefix, line)
        if effects.events:
            self._publish(effects.events)

    def _append(self, effects: Effects) -> None:
        now = self._clock()
        records = [Record(0, now, encode_key(record), encode_value(record)) for record in effects.records]
        self.partition.log.append_records(records, now_ms=now, codec=self._settings.offsets_topic_codec)
        # What a reply says must be as durable as the topic's settings ask for; a coordinator has nobody to let wait meanwhile.
        self.partition.make_durable()

    def _set_alarm(self) -> None:
        # An alarm that rings early only finds nothing to do; re-arming it at every heartbeat would cost more.
        due = self.coordinator.next_deadline_ms()
        if due is None or (self._alarm is not None and self._alarm_at_ms <= due):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = max(0, due - self._clock()) / 1000
        self._alarm_at_ms = due
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= self._clock():
            self._carry_out(self.coordinator.fire_timers(now_ms=self._clock()))
        self._set_alarm()
