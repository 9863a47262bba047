"""What a coordinator of consumer groups (KIP-848) does, by one driver without a client library: one process, bare sockets.

- a group of 1,000 members of 2,000 partitions: formed, and from the leave of one member to the moment when others own all partitions. Every
  member behaves as a client: it says what it owns as soon as that changed, and keeps its session every 500 ms. Targets are at least 1 s
  apart, as they are without settings
- ConsumerGroupHeartbeat of members that only keep their session: 8 connections, 5 requests under way on each
- the target assignment of 5,000 members and 10,000 partitions (20 topics): how long the heartbeat of the member that joins or follows a
  leave waits for its answer. Members subscribe to all topics, or each to ten of its own
- memory a member, the connections being there already; members keep their session every 5 s

Each broker runs alone, on a new process and directory for every part; of what is measured warm the last third counts. `--only` takes a
part: "group", "streams", "targets", "memory".
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from typing import Any

from peers import arguments, make_topic, peers_in_turn
from report import Metric, Report, at_least_kafkas, at_most_kafkas

from tests.support.clients.group_driver import Connection, GroupDriver, UnexpectedAnswer
from tests.support.clients.group_frames import CONFIG_ERROR_AT, Beaten, consumer_heartbeat_frame, group_config_frame, read_beaten
from tests.support.processes import cpu_seconds, resident_bytes

HEARTBEAT_MS = 500
DEFAULT_HEARTBEAT_MS = 5_000
"""Kafka's, where members are so many that heartbeats alone would fill the broker's time."""
CONNECTIONS, IN_FLIGHT = 8, 5
LEAVE = -1
WAIT_SECONDS_MAX = 120
CONFIG = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.max.session.timeout.ms": "1800000",
    "group.consumer.session.timeout.ms": "1800000",
}
ASSIGNMENT_INTERVAL = b"consumer.assignment.interval.ms"
SELDOM_MS, OFTEN_MS = b"15000", b"100"
"""The interval of a large group's targets: while members join, each of whom would have one computed, and then."""
AS_FAST = "<= Apache Kafka"


@dataclass(frozen=True)
class Size:
    """How much is done. `rounds` are how often, of which the last third counts."""

    members: int
    forms: int
    leaves: int
    seconds: float
    target_members: int
    target_partitions: int
    targets: int
    memory_members: int
    settle_seconds: float


LARGE = Size(1_000, 6, 60, 4, 5_000, 10_000, 45, 5_000, 2)
SMALL = Size(20, 1, 3, 0.1, 50, 100, 3, 200, 0.1)


class Member:
    """A member on its connection, as its client has it."""

    __slots__ = ("connection", "epoch", "member_id", "owned", "said")

    def __init__(self, connection: Connection, member_id: bytes) -> None:
        self.connection = connection
        self.member_id = member_id
        self.epoch = 0
        self.owned: frozenset[tuple[bytes, int]] = frozenset()
        self.said = self.owned

    def frame(self, group: bytes, topics: Sequence[bytes]) -> bytes:
        """Its next heartbeat."""
        if self.epoch == 0:
            return consumer_heartbeat_frame(group, self.member_id, 0, topics, {})
        owned = None
        if self.said != self.owned:
            by_topic: dict[bytes, list[int]] = {}
            for topic_id, number in self.owned:
                by_topic.setdefault(topic_id, []).append(number)
            owned, self.said = by_topic, self.owned
        return consumer_heartbeat_frame(group, self.member_id, self.epoch, None, owned)

    def learn(self, beaten: Beaten) -> bool:
        """Take note of an answer; whether it must say at once what it owns."""
        if beaten.error:
            raise UnexpectedAnswer(f"ConsumerGroupHeartbeat: error {beaten.error}")
        self.epoch = beaten.epoch
        if beaten.assigned is not None:
            self.owned = beaten.assigned
        return self.said != self.owned


class MemberDriver(GroupDriver):
    """Members of one consumer group, one on each connection."""

    interval_ms = HEARTBEAT_MS

    def begin(self, group: str, topics: Sequence[str], partitions: int) -> None:
        """All members will be new ones of a new group; nobody has joined."""
        self.group, self.topics, self.partitions = group.encode(), [topic.encode() for topic in topics], partitions
        self.members = [Member(each, f"{group}-{number:05}".encode()) for number, each in enumerate(self.connections)]
        self.alive = set(self.members)
        self._later.clear()

    def form(self, group: str, topics: Sequence[str], partitions: int) -> float:  # type: ignore[override]
        """Seconds until every member owns its part."""
        self.begin(group, topics, partitions)
        begin = time.perf_counter()
        for member in self.members:
            self._beat(member)
        self._run(lambda: self._own_all() and min(len(each.owned) for each in self.alive) >= partitions // len(self.alive))
        self._spread()
        return time.perf_counter() - begin

    def leave_one(self, number: int) -> float:
        """Seconds from a leave until the others own all partitions."""
        leaver = self.members[number]
        self._wait_until(lambda: leaver.connection.expecting is None)
        self.alive.discard(leaver)
        begin = time.perf_counter()
        leaver.connection.ask(consumer_heartbeat_frame(self.group, leaver.member_id, LEAVE))
        leaver.epoch, leaver.owned = 0, frozenset()
        self._run(self._own_all)
        return time.perf_counter() - begin

    def wait(self, seconds: float) -> None:
        """Go on with heartbeats."""
        end = time.perf_counter() + seconds
        self._wait_until(lambda: time.perf_counter() >= end)

    def rest(self) -> None:
        """Wait for the answers that are under way; no more heartbeats are sent."""
        self._wait_until(lambda: all(each.connection.expecting is None for each in self.alive))
        self._later.clear()

    def _own_all(self) -> bool:
        return sum(len(each.owned) for each in self.alive) == self.partitions

    def _spread(self) -> None:
        """The members' heartbeats are evenly apart from now on."""
        self.rest()
        for number, member in enumerate(self.members):
            self._after(self.interval_ms * number / len(self.members), partial(self._keep, member))

    def _run(self, is_done: Callable[[], bool]) -> None:
        self._has_news = True
        self._wait_until(lambda: self._has_news and is_done())

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + WAIT_SECONDS_MAX
        while not is_done():
            self._has_news = False
            self._turn(deadline)

    def _beat(self, member: Member) -> None:
        member.connection.expecting = partial(self._on_beaten, member)
        member.connection.send(member.frame(self.group, self.topics))

    def _keep(self, member: Member) -> None:
        if member in self.alive and member.connection.expecting is None:
            self._beat(member)

    def _on_beaten(self, member: Member, connection: Connection, answer: bytes) -> None:
        connection.expecting = None
        self._has_news = True
        if member.learn(read_beaten(answer)):
            self._beat(member)
        else:
            self._after(self.interval_ms, partial(self._keep, member))


@dataclass(frozen=True)
class Bench:
    """Where measurements go."""

    report: Report
    size: Size

    def add_median(self, metric: Metric, peer: Any, values: Sequence[float]) -> None:
        """The median of the last third is one value."""
        self.report.add(metric, peer.kind, median(values[-max(1, len(values) // 3) :]))


def faster(name: str, unit: str) -> Metric:
    return Metric(name, unit, AS_FAST, at_most_kafkas)


def group(bench: Bench, peer: Any) -> None:
    """A group formed again and again, under new names; then members leave one after the other."""
    size = bench.size
    make_topic(peer, "topic", 2 * size.members)
    with MemberDriver(peer.bootstrap_servers, size.members) as driver:
        driver.wait_for_coordinator("group-0")
        formed = [driver.form(f"group-{number}", ["topic"], 2 * size.members) for number in range(size.forms)]
        bench.report.add(Metric(f"{size.members:,} members join, right after start", "s"), peer.kind, formed[0])
        bench.add_median(faster(f"{size.members:,} members join, warm", "s"), peer, formed)
        driver.wait(1.2)
        begin, left = cpu_seconds(peer.pid), []
        for number in range(size.leaves):
            left.append(driver.leave_one(number * 7 % size.members) * 1_000)
            driver.wait(1.2)
        used = (cpu_seconds(peer.pid) - begin) / size.leaves
        bench.add_median(faster(f"one of {size.members:,} leaves, until all partitions are owned", "ms"), peer, left)
        bench.report.note(f"processor time of one leave with 1.5 s of heartbeats: {peer.kind} {used * 1_000:.0f} ms")


def streams(bench: Bench, peer: Any) -> None:
    """Heartbeats that only keep a session, in one group of as many members as there are connections."""
    make_topic(peer, "topic", CONNECTIONS)
    with MemberDriver(peer.bootstrap_servers, CONNECTIONS) as driver:
        driver.wait_for_coordinator("beating")
        driver.form("beating", ["topic"], CONNECTIONS)
        driver.wait(2.5)
        driver.rest()
        frames = [[consumer_heartbeat_frame(driver.group, each.member_id, each.epoch)] * IN_FLIGHT for each in driver.members]
        for _ in range(3):
            driver.stream(frames, IN_FLIGHT, bench.size.seconds)
        begin = cpu_seconds(peer.pid)
        rate = driver.stream(frames, IN_FLIGHT, bench.size.seconds)
        used = (cpu_seconds(peer.pid) - begin) / bench.size.seconds / rate.per_second * 1e6
        bench.report.add(
            Metric("ConsumerGroupHeartbeat, warm", "k requests/s", ">= Apache Kafka", at_least_kafkas), peer.kind, rate.per_second / 1e3
        )
        bench.report.note(f"processor time of a heartbeat: {peer.kind} {used:.0f} us, the driver's share of a core {rate.driver_share:.0%}")


def join_many(connection: Connection, group: bytes, members: Mapping[bytes, Sequence[bytes]]) -> dict[bytes, Beaten]:
    """Members join over one connection, many requests under way."""
    joined: dict[bytes, Beaten] = {}
    names = iter(members)
    waiting: list[bytes] = []

    def send() -> None:
        name = next(names, None)
        if name is not None:
            waiting.append(name)
            connection.send(consumer_heartbeat_frame(group, name, 0, members[name], {}))

    for _ in range(50):
        send()
    while waiting:
        for answer in connection.frames_later():
            name = waiting.pop(0)
            joined[name] = read_beaten(answer)
            if joined[name].error:
                raise UnexpectedAnswer(f"ConsumerGroupHeartbeat: error {joined[name].error}")
            send()
    return joined


def subscriptions(kind: str, topics: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    rng = Random(1)
    while True:
        yield topics if kind == "all topics" else rng.sample(topics, len(topics) // 2)


def set_interval(connection: Connection, milliseconds: bytes) -> None:
    """How far the targets of the large group are apart."""
    answer = connection.ask(group_config_frame(b"large", ASSIGNMENT_INTERVAL, milliseconds))
    error = int.from_bytes(answer[CONFIG_ERROR_AT : CONFIG_ERROR_AT + 2])
    if error:
        raise UnexpectedAnswer(f"IncrementalAlterConfigs: error {error}")


def targets(bench: Bench, peer: Any, *, kind: str) -> None:
    """Members join a large group, and leave it again, one at a time."""
    size = bench.size
    topics = [f"topic-{number:02}" for number in range(20)]
    for topic in topics:
        make_topic(peer, topic, size.target_partitions // len(topics))
    chosen = subscriptions(kind, [topic.encode() for topic in topics])
    with GroupDriver(peer.bootstrap_servers, 1) as driver:
        driver.wait_for_coordinator("large")
        (connection,) = driver.connections
        set_interval(connection, SELDOM_MS)
        members = {f"member-{number:05}".encode(): next(chosen) for number in range(size.target_members)}
        join_many(connection, b"large", members)
        set_interval(connection, OFTEN_MS)
        first = next(iter(members))
        epoch = settled_epoch(connection, first, members[first])
        joins, leaves = [], []
        for number in range(size.targets):
            name = f"extra-{number:05}".encode()
            time.sleep(0.15)
            begin = time.perf_counter()
            beaten = read_beaten(connection.ask(consumer_heartbeat_frame(b"large", name, 0, next(chosen), {}))[4:])
            joins.append((time.perf_counter() - begin) * 1_000)
            assert beaten.epoch > epoch, f"{beaten} has no new target"
            connection.ask(consumer_heartbeat_frame(b"large", name, LEAVE))
            time.sleep(0.15)
            begin = time.perf_counter()
            beaten = read_beaten(connection.ask(consumer_heartbeat_frame(b"large", first, 0, members[first], {}))[4:])
            leaves.append((time.perf_counter() - begin) * 1_000)
            assert beaten.epoch > epoch, f"{beaten} has no new target"
            epoch = beaten.epoch
    what = f"target of {size.target_members:,} members x {size.target_partitions:,} partitions, {kind}"
    bench.add_median(faster(f"{what}, one joins", "ms"), peer, joins)
    bench.add_median(faster(f"{what}, one has left", "ms"), peer, leaves)


def settled_epoch(connection: Connection, member_id: bytes, topics: Sequence[bytes]) -> int:
    """The member's epoch when the group has a target of its last epoch."""
    last = -1
    while True:
        time.sleep(0.3)
        epoch = read_beaten(connection.ask(consumer_heartbeat_frame(b"large", member_id, 0, topics, {}))[4:]).epoch
        if epoch == last:
            return epoch
        last = epoch


def memory(bench: Bench, peer: Any) -> None:
    """Resident growth by members on connections that are there already, and have asked once."""

    def settled_bytes() -> int:
        time.sleep(bench.size.settle_seconds)
        return resident_bytes(peer.pid)

    count = bench.size.memory_members
    make_topic(peer, "topic", 1_000)
    with MemberDriver(peer.bootstrap_servers, count) as driver:
        driver.wait_for_coordinator("memory")
        driver.interval_ms = DEFAULT_HEARTBEAT_MS
        for connection in driver.connections:
            connection.ask(consumer_heartbeat_frame(b"unknown", b"m", 1))
        connected = settled_bytes()
        driver.form("memory", ["topic"], 1_000)
        bench.report.add(faster(f"memory a member, a group of {count:,}", "B"), peer.kind, (settled_bytes() - connected) / count)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Consumer groups (KIP-848)")
    bench = Bench(report, SMALL if wanted.small else LARGE)
    parts: dict[str, tuple[Callable[[Bench, Any], None], Mapping[str, str]]] = {
        "group": (group, CONFIG),
        "streams": (streams, CONFIG),
        "targets, all topics": (partial(targets, kind="all topics"), CONFIG),
        "targets, ten topics each": (partial(targets, kind="ten topics each"), CONFIG),
        "memory": (memory, CONFIG),
    }
    for _ in range(wanted.rounds):
        for name, (part, config) in parts.items():
            if wanted.only in name:
                for peer in peers_in_turn(wanted.peers, config):
                    print(f"{peer.kind}: {name}", file=sys.stderr, flush=True)
                    part(bench, peer)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
