"""Reads records with a consumer and prints them until there is a reason to end.

Offsets are stored for the next commit when their records are written: records are printed at least once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.cli.consume.formats import Render
from ottla.cli.groups.failures import CommandFailed
from ottla.cli.record_progress import RecordProgress
from ottla.cli.signals import StopRequest
from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.topic_partition import TopicPartition

BATCH: Final = 10_000
WAIT_S: Final = 0.1
"""How long a signal or the end of a topic may have to wait."""


Write = Callable[[bytes, StopRequest], None]
"""Writes all of the bytes; may raise Stopped once a signal has come."""


class Reader(Protocol):
    """What of a consumer this uses."""

    def consume(self, num_messages: int, timeout: float) -> Sequence[Any]: ...
    def assignment(self) -> list[TopicPartition]: ...
    def position(self, partitions: Sequence[Any]) -> list[TopicPartition]: ...
    def store_offsets(self, *, offsets: Sequence[Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to end: after `count` records, at the ends of all partitions, after so many seconds without a record. None: not by this."""

    count: int | None = None
    at_end: bool = False
    timeout_s: float | None = None


class Ends:
    """Which of the assigned partitions have been read to their ends. A listener of the assignment."""

    def __init__(self) -> None:
        self._assigned: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()

    def on_assign(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """These are assigned, beside what is already there."""
        self._assigned |= {(each.topic, each.partition) for each in partitions}

    def on_revoke(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """These are not assigned any more."""
        gone = {(each.topic, each.partition) for each in partitions}
        self._assigned -= gone
        self._ended -= gone

    def reach(self, topic: str, partition: int) -> None:
        """The end of a partition."""
        self._ended.add((topic, partition))

    @property
    def are_reached(self) -> bool:
        """Whether all that is assigned has been read. A member without partitions may get some in the next rebalance."""
        return bool(self._assigned) and self._assigned <= self._ended


class Reading:
    """One run. `stores`: offsets are stored, since the group's member commits them."""

    def __init__(
        self,
        consumer: Reader,
        *,
        render: Render,
        write: Write,
        ends: Ends,
        progress: RecordProgress,
        stop: StopRequest,
        stores: bool,
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._render = render
        self._write = write
        self._ends = ends
        self._progress = progress
        self._stop = stop
        self._stores = stores
        self._clock = clock

    def run(self, limits: Limits) -> None:
        """Read until a signal or a limit. Raises CommandFailed, KafkaException, Stopped, and BrokenPipeError when the output is closed."""
        left = limits.count
        last_s = self._clock()
        while not self._stop.is_set and left != 0:
            messages = self._consumer.consume(BATCH if left is None else min(left, BATCH), WAIT_S)
            records = [each for each in messages if each.error() is None]
            if records:
                self._print(records)
                last_s = self._clock()
                left = None if left is None else left - len(records)
            if len(records) < len(messages):
                self._on_events([each for each in messages if each.error() is not None])
            if limits.at_end and self._ends.are_reached:
                return
            if limits.timeout_s is not None and self._clock() - last_s >= limits.timeout_s:
                if left:
                    raise CommandFailed(f"{left:,} of {limits.count:,} records did not come within {limits.timeout_s:g} s")
                return

    def _print(self, records: Sequence[Any]) -> None:
        behind = self._consumer.position(self._consumer.assignment()) if self._stores else ()
        data = self._render(records)
        self._write(data, self._stop)
        self._progress.add(len(records), len(data))
        known = [each for each in behind if each.offset >= 0]
        if known:
            self._consumer.store_offsets(offsets=known)

    def _on_events(self, events: Sequence[Any]) -> None:
        for event in events:
            error = event.error()
            if error.code() == KafkaError._PARTITION_EOF:
                self._ends.reach(event.topic(), event.partition())
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                self._progress.say(error.str())
            else:
                raise CommandFailed(error.str())
