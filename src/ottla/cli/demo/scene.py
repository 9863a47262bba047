"""Everything that runs during the demo's day: broker, topic, replay, consumers, and the observers of the group.

It starts, pumps, waits and ends. All waiting happens in `wait_for`, which has a limit and says what did not come about. What happens to
the group, and when, is the script's business.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.broker.clock import now_ms
from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.consumers import GROUP, Consumers
from ottla.cli.demo.group_watch import EventReader, GroupPicture
from ottla.cli.demo.input import Flights
from ottla.cli.demo.replay import Pace, Replay, new_producer
from ottla.cli.demo.results import Results
from ottla.cli.demo.timing import Timing
from ottla.core.diagnosis.evidence.group_events import read_event
from ottla.core.model import GroupEvent
from ottla.testing.processes.ottla_process import OttlaProcess

log = logging.getLogger(__name__)

TOPIC = "flights"
PARTITIONS = 12
PARTITIONS_AFTER = 16
_READ_S = 0.1
_ASK_S = 0.25
_ANSWER_S = 15


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the day is: flights that the broker has acknowledged, flights that the group has committed, what is waited for."""

    replayed: int
    committed: int
    waiting_for: str


class EndOffset(NamedTuple):
    """Where a partition of the topic ended at a time (milliseconds since 1970): the producer's view of it."""

    partition: int
    end_offset: int
    at_ms: int


class Scene:
    """The stage, as a context manager; whatever runs on it has ended when it closes."""

    def __init__(self, results: Results, flights: Flights, timing: Timing, assignor: str, on_progress: Callable[[Progress], None]) -> None:
        self.timing = timing
        self.flights_total = len(flights)
        self.partitions = PARTITIONS
        self.end_offsets: list[EndOffset] = []
        self.released_ms = 0
        self._ends: Mapping[int, int] = {}
        self._flights = flights
        self._results = results
        self._assignor = assignor
        self._on_progress = on_progress
        self._group = GroupPicture(GROUP)
        self._committed: Mapping[int, int] = {}
        self._asked_s = 0.0
        self._waiting_for = ""
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.callback(self._ending.close)
            self._open()
            on_failure.pop_all()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ending.close()

    def _open(self) -> None:
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        settings = {"group.min.session.timeout.ms": str(min(6_000, self.timing.session_timeout_ms))}
        broker = self._ending.enter_context(OttlaProcess(self._results.broker_data, config=settings))
        self.bootstrap_servers = broker.bootstrap_servers
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "client.id": "demo-admin", "logger": log}
        self._admin = AdminClient(config)
        # The flights are from 2013: a retention of a week would throw them away.
        topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[TOPIC].result(_ANSWER_S)
        self._events = EventReader(self.bootstrap_servers)
        self._ending.callback(self._events.close)
        self.consumers = Consumers(self.bootstrap_servers, TOPIC, self._assignor, self.timing, self._results)
        self._ending.callback(self.consumers.kill_all)
        self.pace = Pace(self.timing.flights_per_second, self.flights_total)
        producer = new_producer(self.bootstrap_servers, metadata_refresh_ms=self.timing.metadata_refresh_ms)
        self.replay = Replay(producer, TOPIC, self._flights.records(), self.pace)
        self._ending.callback(self.replay.stop)
        self.replay.start()

    @property
    def committed(self) -> int:
        """Flights that the group has committed, over all partitions: a flight is one offset, for the producer doubles none."""
        return sum(self._committed.values())

    @property
    def triggers_seen(self) -> int:
        """How many triggers of rebalances there have been; a mark for `wait_for_trigger`."""
        return len(self._group.triggers)

    def add_partitions(self, count: int) -> None:
        """Raise the topic's partitions to `count`; from now on the replay writes to all of them."""
        from confluent_kafka.cimpl import NewPartitions

        self._admin.create_partitions([NewPartitions(TOPIC, count)])[TOPIC].result(_ANSWER_S)
        self.partitions = count
        self.replay.learn_partitions()

    def group_events(self) -> list[GroupEvent]:
        """Everything that the broker has published about its groups."""
        while self._events.read(_READ_S):
            pass
        return [event for value in self._events.values if (event := read_event(value)) is not None]

    def release(self) -> None:
        """Send the rest of the replay at full speed."""
        self.released_ms = now_ms()
        self.pace.release()

    def wait_for(self, what: str, is_so: Callable[[], bool], *, seconds_max: float | None = None) -> None:
        """Return when `is_so`. Raises DemoFailedError after `seconds_max` (default: the timing's wait_seconds_max)."""
        self._waiting_for = what
        limit_s = self.timing.wait_seconds_max if seconds_max is None else seconds_max
        ends_s = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > ends_s:
                raise DemoFailedError(f"timed out after {limit_s:g} s waiting for {what}; the group is {self._group}")
            self._pump()

    def wait_until_settled(self, *clients: str) -> None:
        """Return when exactly these consumers own all partitions."""
        whole = frozenset(clients)
        what = f"{' and '.join(clients)} to share {self.partitions} partitions"
        self.wait_for(what, lambda: self._group.is_settled(whole, self.partitions))

    def wait_for_trigger(self, client: str, *causes: str, since: int, what: str) -> None:
        """Return when one of these causes has affected the client since the mark `since`."""
        self.wait_for(what, lambda: self._group.has_seen(client, frozenset(causes), since=since))

    def let_work(self) -> None:
        """Return when the group has committed some more flights."""
        goal = min(self.committed + self.timing.flights_between_incidents, self.flights_total)
        self.wait_for("the group to get on with its work", lambda: self.committed >= goal)

    def _pump(self) -> None:
        """Read the group's events, from time to time its offsets, and check that every process is alive."""
        for event in self._events.read(_READ_S):
            self._group.apply(event)
        if time.monotonic() - self._asked_s > _ASK_S:
            self._committed = self._ask_committed()
            self._asked_s = time.monotonic()
        self._note_ends()
        self._on_progress(Progress(self.replay.acknowledged, self.committed, self._waiting_for))
        self.consumers.check()
        if self.replay.failure is not None:
            raise DemoFailedError(f"the replay failed: {self.replay.failure}")

    def _note_ends(self) -> None:
        """Add the end offsets that have changed."""
        ends, at_ms = dict(self.replay.end_offsets), now_ms()
        self.end_offsets += [EndOffset(*each, at_ms) for each in ends.items() - self._ends.items()]
        self._ends = ends

    def _ask_committed(self) -> dict[int, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
        try:
            offsets = asked[GROUP].result(_ANSWER_S).topic_partitions
        except KafkaException as error:
            raise DemoFailedError(
                f"the broker did not return the group's offsets: {error} (its log: {self._results.broker_data}.log)"
            ) from error
        return {each.partition: each.offset for each in offsets if each.offset >= 0}
