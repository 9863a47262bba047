"""Group events on their way out: to whoever listens, and as one JSON record each to the topic `__ottla_group_events`.

Listeners are a Python callback and the metrics. Publishing never delays an answer (it runs when the loop is next free) and never fails a
group: a full disk costs events, with a log line.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.broker.event_json import event_json
from ottla.broker.partitions import NotOpen, Partitions
from ottla.broker.topics import Topics
from ottla.core.catalogue.catalogue import GROUP_EVENTS
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.errors import StorageError
from ottla.core.model import GroupEvent, Record
from ottla.core.text import printable

log = logging.getLogger("ottla.broker.events")


class GroupEvents:
    """Collects the events of one turn of the loop and writes them as one batch."""

    def __init__(
        self, topics: Topics, partitions: Partitions, clock: Callable[[], int], callback: Callable[[GroupEvent], None] | None
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._listeners = [] if callback is None else [callback]
        self._pending: list[GroupEvent] = []

    def listen(self, listener: Callable[[GroupEvent], None]) -> None:
        """Tells `listener` every event from now on, on the loop."""
        self._listeners.append(listener)

    def publish(self, events: tuple[GroupEvent, ...]) -> None:
        """Takes events over; they are written when the loop is next free."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pending += events

    async def open(self) -> None:
        """Has the topic opened, if there is one: the broker stops, and what is published from now on cannot wait for that."""
        topic = self._topics.get(GROUP_EVENTS)
        if topic is not None:
            with suppress(StorageError):  # `flush` says so, if there is anything to write
                await self._partitions.open(topic, 0)

    def flush(self) -> None:
        """Writes what is pending."""
        events, self._pending = self._pending, []
        if not events:
            return
        try:
            self._append(events)
        except NotOpen as error:  # the first events after a start: all that come meanwhile are written together
            self._pending = events
            error.opening.add_done_callback(lambda _: self.flush())
            return
        except StorageError as error:
            log.error("%d group events are lost: %s", len(events), error)
        for listener in self._listeners:
            for event in events:
                self._tell(listener, event)

    def _append(self, events: list[GroupEvent]) -> None:
        topic = self._topics.ensure(GROUP_EVENTS)
        assert not isinstance(topic, Refused)
        partition = self._partitions.get(topic, 0)
        assert partition is not None
        records = [Record(0, event.at_ms, event.group.encode(), event_json(event)) for event in events]
        partition.log.append_records(records, now_ms=self._clock())
        partition.grew()

    @staticmethod
    def _tell(listener: Callable[[GroupEvent], None], event: GroupEvent) -> None:
        try:
            listener(event)
        except Exception:
            log.exception("the group event callback failed on %s of group %s", event.kind, printable(event.group))
