"""Publishes group events: to listeners (a Python callback, the metrics), and as one JSON record each to `__ottla_group_events`.

Publishing never delays a response (it runs when the loop is next free) and never fails a group: events that cannot be written are lost,
with a log line.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.broker.cluster.topics import Topics
from ottla.broker.coordination.event_json import event_json
from ottla.broker.logs.openings import NotOpen
from ottla.broker.logs.partitions import Partitions
from ottla.core.errors import ApiError, StorageError
from ottla.core.metadata.topics import GROUP_EVENTS
from ottla.core.model import GroupEvent, Record
from ottla.core.text import printable

log = logging.getLogger(__name__)


class GroupEvents:
    """Collects the events of one iteration of the loop and writes them as one batch."""

    def __init__(
        self, topics: Topics, partitions: Partitions, clock: Callable[[], int], callback: Callable[[GroupEvent], None] | None
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._listeners = [] if callback is None else [callback]
        self._pending: list[GroupEvent] = []

    def add_listener(self, listener: Callable[[GroupEvent], None]) -> None:
        """Call `listener` with every event from now on, on the loop."""
        self._listeners.append(listener)

    def publish(self, events: tuple[GroupEvent, ...]) -> None:
        """Take events; they are written when the loop is next free."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pending += events

    async def open(self) -> None:
        """Open the topic, if it exists: events that are published while the broker stops cannot wait for that."""
        topic = self._topics.get(GROUP_EVENTS)
        if topic is not None:
            with suppress(StorageError):  # `flush` says so, if there is anything to write
                await self._partitions.open(topic, 0)

    def flush(self) -> None:
        """Write the pending events and pass them to the listeners."""
        events, self._pending = self._pending, []
        if not events:
            return
        try:
            self._append(events)
        except NotOpen as error:  # the first events after a start: those that follow meanwhile are written with them
            self._pending = events
            error.opening.add_done_callback(lambda _: self.flush())
            return
        except StorageError as error:
            log.error("%d group events are lost: %s", len(events), error)
        for listener in self._listeners:
            for event in events:
                self._notify(listener, event)

    def _append(self, events: list[GroupEvent]) -> None:
        topic = self._topics.ensure(GROUP_EVENTS)
        assert not isinstance(topic, ApiError)
        partition = self._partitions.get(topic, 0)
        assert partition is not None
        records = [Record(0, event.at_ms, event.group.encode(), event_json(event)) for event in events]
        partition.append_records(records, now_ms=self._clock())

    @staticmethod
    def _notify(listener: Callable[[GroupEvent], None], event: GroupEvent) -> None:
        try:
            listener(event)
        except Exception:
            log.exception("the group event callback failed on %s of group %s", event.kind, printable(event.group))
