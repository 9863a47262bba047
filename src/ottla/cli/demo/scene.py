"""The stage of the demo and its script: topics, brokers and consumers, what happens to them, and what is seen of the group meanwhile.

Each consumer is a process of its own. How fast the day goes is decided here: timeouts, the replay's pace, how long anything may take. The
default timeouts are the shortest that Apache Kafka allows without a change of its settings, so that the incidents take seconds.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from ottla.broker.clock import now_ms
from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.input import Flights, Pace, Replay, new_producer
from ottla.cli.demo.results import Results
from ottla.cli.processes import OttlaProcess, ServerProcess
from ottla.groups.events import GroupEvent
from ottla.history.sources.group_events import read_event

log = logging.getLogger(__name__)

EVENTS_TOPIC = "__ottla_group_events"
CLASSIC, CONSUMER = "classic", "consumer"
"""Group protocols; the second is that of KIP-848."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The demo's clockwork; a test makes it smaller.

    A frozen member must be noticed (`session_timeout_ms`) well before its `max_poll_interval_ms` has passed too, so that its return shows
    one cause and not two. `wait_seconds_max` bounds every single wait; `run_out_seconds_max` the last one, for the rest of the year.
    """

    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 500
    max_poll_interval_ms: int = 8_000
    slow_batch_ms: int = 10_000
    metadata_refresh_ms: int = 2_000
    flights_per_second: int = 6_000
    work_between_seconds: float = 1.0
    wait_seconds_max: float = 40.0
    run_out_seconds_max: float = 120.0

    @property
    def flights_between_incidents(self) -> int:
        """How many flights more the group must have committed before the next incident: it is at work, not only alive."""
        return int(self.flights_per_second * self.work_between_seconds)

    def broker_settings(self, protocol: str) -> dict[str, str]:
        """What the broker needs for these timeouts; of the consumer protocol they are its settings."""
        session_ms = str(self.session_timeout_ms)
        if protocol != CONSUMER:
            return {"group.min.session.timeout.ms": str(min(6_000, self.session_timeout_ms))}
        return {
            "group.consumer.min.session.timeout.ms": session_ms,
            "group.consumer.session.timeout.ms": session_ms,
            "group.consumer.min.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "group.consumer.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
        }


GROUP = "flight-desk"
_LOG_TAIL_CHARS = 1_500


class Consumers:
    """All consumer processes by name; the name is also the client id."""

    def __init__(
        self, bootstrap_servers: str, topic: str, assignor: str, timing: Timing, results: Results, protocol: str = CLASSIC
    ) -> None:
        self._topic = topic
        self._timing = timing
        self._results = results
        self._processes: dict[str, ServerProcess] = {}
        self._closing: set[str] = set()
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": GROUP,
            **(
                {"group.protocol": CONSUMER, "group.remote.assignor": assignor}
                if protocol == CONSUMER
                else {
                    "partition.assignment.strategy": assignor,
                    "session.timeout.ms": timing.session_timeout_ms,
                    "heartbeat.interval.ms": timing.heartbeat_interval_ms,
                }
            ),
            "max.poll.interval.ms": timing.max_poll_interval_ms,
            "topic.metadata.refresh.interval.ms": timing.metadata_refresh_ms,
            # Partitions that are added later have records before a consumer knows of them.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }

    def start(self, name: str) -> None:
        """Start a process of this name."""
        config = json.dumps({**self._settings, "client.id": name})
        command = [sys.executable, "-m", "ottla.cli.demo.consumer", "--config", config, "--topic", self._topic]
        command += ["--slow-batch-ms", str(self._timing.slow_batch_ms), "--summary", str(self._results.consumer_summary(name))]
        self._processes[name] = ServerProcess(command, log_path=self._results.consumer_log(name))

    def freeze(self, name: str) -> None:
        """SIGSTOP: alive, but does not run; its heartbeats stop too."""
        self._processes[name].send_signal("STOP")

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._processes[name].send_signal("CONT")

    def make_slow(self, name: str) -> None:
        """Its next flights take longer than its poll interval allows; its heartbeats go on."""
        self._processes[name].send_signal("USR1")

    def ask_to_close(self, name: str) -> None:
        """SIGTERM: it finishes its flights, commits, and leaves the group."""
        self._closing.add(name)
        self._processes[name].send_signal("TERM")

    def has_ended(self, name: str) -> bool:
        """Whether the process is gone."""
        return not self._processes[name].is_running

    def take_leave(self, name: str) -> None:
        """Forget a process that was asked to close and has ended. Raises DemoFailedError when it did not end well."""
        status = self._processes.pop(name).stop()
        if status != 0:
            raise DemoFailedError(f"{name} ended with status {status}; {self._last_words(name)}")

    def check(self) -> None:
        """Raises DemoFailedError when a process has ended that should be there."""
        for name in self._processes.keys() - self._closing:
            if self.has_ended(name):
                raise DemoFailedError(f"{name} has ended without being asked to; {self._last_words(name)}")

    def kill_all(self) -> None:
        """End every process at once, frozen ones too."""
        while self._processes:
            self._processes.popitem()[1].kill()

    def _last_words(self, name: str) -> str:
        log = self._results.consumer_log(name)
        return f"the end of {log}:\n{log.read_text(errors='replace')[-_LOG_TAIL_CHARS:]}"


@dataclass(frozen=True, slots=True)
class Seen:
    """One trigger that has been seen: its cause code, the client, and its place among all triggers."""

    number: int
    cause: str
    client_id: str


@dataclass(slots=True)
class GroupPicture:
    """The group as its events show it so far. `partitions` is empty while a rebalance is under way.

    Events of a consumer group have the triggers alone: what its members own is asked for, and `described` says it.
    """

    group: str
    is_stable: bool = False
    generation: int = -1
    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    triggers: list[Seen] = field(default_factory=list)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in one event, as it is published (GroupEvent.to_dict)."""
        if event["group"] != self.group:
            return
        if event["kind"] in ("trigger", "epoch_bumped") and event["trigger"]:
            self.triggers.append(Seen(len(self.triggers), event["trigger"], event["client_id"] or ""))
        if event["kind"] not in ("trigger", "epoch_bumped", "join_completed", "sync_completed", "emptied"):
            return
        self.is_stable = event["kind"] == "sync_completed"
        self.generation = event["generation"]
        self.partitions = {
            member["client_id"]: [partition for numbers in member["assignment"].values() for partition in numbers]
            for member in event["members"]
            if self.is_stable
        }

    def described(self, partitions: Mapping[str, Sequence[int]], *, is_stable: bool) -> None:
        """What the members of a consumer group own, by client, and whether everybody has what it is to have."""
        self.is_stable, self.partitions = is_stable, partitions

    def is_settled(self, clients: frozenset[str], partition_count: int) -> bool:
        """Whether exactly these clients are in the group, and every partition has its owner."""
        owned = sorted(partition for numbers in self.partitions.values() for partition in numbers)
        return self.is_stable and frozenset(self.partitions) == clients and owned == list(range(partition_count))

    def has_seen(self, client_id: str, causes: frozenset[str], *, since: int) -> bool:
        """Whether one of these causes has struck this client since there were `since` triggers."""
        return any(seen.client_id == client_id and seen.cause in causes for seen in self.triggers[since:])

    def __str__(self) -> str:
        state = "stable" if self.is_stable else "rebalancing"
        owned = ", ".join(f"{client}: {len(numbers)}" for client, numbers in sorted(self.partitions.items()))
        last = f", last trigger {self.triggers[-1].cause} by {self.triggers[-1].client_id}" if self.triggers else ""
        return f"{state} in generation {self.generation} (partitions by client: {owned or 'unknown'}{last})"


class EventReader:
    """Reads the events topic from its beginning, without a group of its own. `values`: all that was read, as it was published."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Consumer

        self.values: list[bytes] = []

        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "demo-watch",
                "group.id": "demo-watch",  # librdkafka wants a name; nothing is committed under it
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "logger": log,
            }
        )
        self._is_assigned = False

    def read(self, seconds: float) -> list[Mapping[str, Any]]:
        """The events that have come since the last call, waiting `seconds` at most for the first."""
        from confluent_kafka import TopicPartition

        if not self._is_assigned:
            # The broker makes the topic with the first event.
            if EVENTS_TOPIC not in self._consumer.list_topics(timeout=10).topics:
                time.sleep(seconds)
                return []
            self._consumer.assign([TopicPartition(EVENTS_TOPIC, 0, 0)])
            self._is_assigned = True
        values = [message.value() for message in self._consumer.consume(100, seconds) if message.error() is None]
        self.values += values
        return [json.loads(value) for value in values]

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()


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

    def __init__(
        self,
        results: Results,
        flights: Flights,
        timing: Timing,
        assignor: str,
        on_progress: Callable[[Progress], None],
        protocol: str = CLASSIC,
    ) -> None:
        self.timing = timing
        self.flights_total = len(flights)
        self.partitions = PARTITIONS
        self.end_offsets: list[EndOffset] = []
        self.released_ms = 0
        self._ends: Mapping[int, int] = {}
        self._flights = flights
        self._results = results
        self._assignor = assignor
        self._protocol = protocol
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

        settings = self.timing.broker_settings(self._protocol)
        broker = self._ending.enter_context(OttlaProcess(self._results.broker_data, config=settings))
        self.bootstrap_servers = broker.bootstrap_servers
        config: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "client.id": "demo-admin", "logger": log}
        self._admin = AdminClient(config)
        # The flights are from 2013: a retention of a week would throw them away.
        topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[TOPIC].result(_ANSWER_S)
        self._events = EventReader(self.bootstrap_servers)
        self._ending.callback(self._events.close)
        self.consumers = Consumers(self.bootstrap_servers, TOPIC, self._assignor, self.timing, self._results, self._protocol)
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
    def sees_every_assignment(self) -> bool:
        """Whether none is missed: a consumer group's are asked for from time to time, a classic group's are events."""
        return self._protocol == CLASSIC

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
            if self._protocol == CONSUMER:
                self._ask_owners()
            self._asked_s = time.monotonic()
        self._note_ends()
        self._on_progress(Progress(self.replay.acknowledged, self.committed, self._waiting_for))
        self.consumers.check()
        if self.replay.failure is not None:
            raise DemoFailedError(f"the replay failed: {self.replay.failure}")

    def _note_ends(self) -> None:
        """Add the end offsets that have changed."""
        ends, at_ms = dict(self.replay.end_offsets), now_ms()
        self.end_offsets += [EndOffset(*end, at_ms) for end in ends.items() - self._ends.items()]
        self._ends = ends

    def _ask_owners(self) -> None:
        from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

        try:
            group = self._admin.describe_consumer_groups([GROUP])[GROUP].result(_ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise DemoFailedError(
                    f"the broker did not describe the group: {error} (its log: {self._results.broker_data}.log)"
                ) from error
            return  # nobody has joined yet
        owned = {each.client_id: [place.partition for place in each.assignment.topic_partitions] for each in group.members}
        self._group.described(owned, is_stable=group.state is ConsumerGroupState.STABLE)

    def _ask_committed(self) -> dict[int, int]:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
        try:
            offsets = asked[GROUP].result(_ANSWER_S).topic_partitions
        except KafkaException as error:
            raise DemoFailedError(
                f"the broker did not return the group's offsets: {error} (its log: {self._results.broker_data}.log)"
            ) from error
        return {offset.partition: offset.offset for offset in offsets if offset.offset >= 0}


NAMES = ONE, TWO, THREE = "consumer-1", "consumer-2", "consumer-3"


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happens: how it is announced, and how it is played."""

    title: str
    play: Callable[[Scene], None]


def start_one(scene: Scene) -> None:
    """The first member: it gets everything."""
    scene.consumers.start(ONE)
    scene.wait_until_settled(ONE)
    scene.let_work()


def scale_out(scene: Scene) -> None:
    """Two more."""
    scene.consumers.start(TWO)
    scene.consumers.start(THREE)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def freeze_one(scene: Scene) -> None:
    """Like a long garbage collection, a paused virtual machine, a laptop's lid: no heartbeats, and no idea of it afterwards."""
    before = scene.triggers_seen
    scene.consumers.freeze(TWO)
    scene.wait_for_trigger(TWO, "EXPIRE_HEARTBEAT", since=before, what=f"the session of the frozen {TWO} to expire")
    scene.wait_until_settled(ONE, THREE)
    scene.consumers.thaw(TWO)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def make_one_slow(scene: Scene) -> None:
    """Heartbeats continue in the background; the client notices the missing poll and leaves. It comes back with its next poll."""
    before = scene.triggers_seen
    scene.consumers.make_slow(THREE)
    scene.wait_for_trigger(THREE, "LEAVE", "POLL_TIMEOUT", since=before, what=f"the slow {THREE} to miss its poll interval")
    if scene.sees_every_assignment:
        scene.wait_until_settled(ONE, TWO)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def close_one(scene: Scene) -> None:
    """A clean close: commits, leaves, and no timeout passes."""
    before = scene.triggers_seen
    close(scene, ONE)
    scene.wait_for_trigger(ONE, "LEAVE", since=before, what=f"{ONE} to leave")
    scene.wait_until_settled(TWO, THREE)
    scene.let_work()


def add_partitions(scene: Scene) -> None:
    """The members find out when they next refresh their metadata."""
    scene.add_partitions(PARTITIONS_AFTER)
    scene.wait_until_settled(TWO, THREE)
    scene.let_work()


def run_out(scene: Scene) -> None:
    """The rest of the year at full speed, until every flight is committed; then all consumers close."""
    seconds_max = scene.timing.run_out_seconds_max
    scene.release()
    scene.wait_for("the rest of the year to be replayed", lambda: scene.replay.is_done, seconds_max=seconds_max)
    scene.wait_for("every flight to be committed", lambda: scene.committed >= scene.flights_total, seconds_max=seconds_max)
    for name in (TWO, THREE):
        close(scene, name)


def close(scene: Scene, name: str) -> None:
    """Ask a consumer to close, and see it end."""
    scene.consumers.ask_to_close(name)
    scene.wait_for(f"{name} to close", lambda: scene.consumers.has_ended(name))
    scene.consumers.take_leave(name)


INCIDENTS = (
    Incident(f"{ONE} starts and gets all {PARTITIONS} partitions", start_one),
    Incident(f"scale out: {TWO} and {THREE} join", scale_out),
    Incident(f"{TWO} is frozen (SIGSTOP) past its session timeout, and thawed", freeze_one),
    Incident(f"{THREE} is too slow for its max.poll.interval.ms, and comes back", make_one_slow),
    Incident(f"{ONE} is closed cleanly", close_one),
    Incident(f"the topic grows from {PARTITIONS} to {PARTITIONS_AFTER} partitions", add_partitions),
    Incident("the rest of the year at full speed; then all consumers close", run_out),
)
