"""What a group coordinator does in a second, by one driver without a client library: one process, one connection a member, bare sockets.

- a group of 1,000 members formed from nothing, right after the broker's start and warm. A member that is synced while others still join
  learns of it from its next heartbeat: so it is measured with heartbeats every 3 s, as clients have them, and every 100 ms
- all of 10, 100, 1,000 members join again and are synced: the first time after the start, and warm
- OffsetCommit with 1 and with 100 partitions a request, without metadata, with "m" and with texts of 1 to 60 bytes, and Heartbeat:
  8 connections, 5 requests under way on each
- memory a member, the connections being there already, after a rebalance: groups of 1,000, one of 5,000

Each broker runs alone, on a new process and directory for everything that is measured right after the start. What the driver itself used
of a core is printed below the table: where it comes near 100 %, it is the driver that is measured. `--only` takes a part: "large group",
"impatient group", "small groups", "streams", "memory".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader
from peers import arguments, make_topic, peers_in_turn
from report import Metric, Report, at_least_kafkas, at_most, at_most_kafkas

from ottla.protocol.wire.api_keys import ApiKey
from tests.support.clients.group_driver import HEARTBEAT_MS, GroupDriver, Spent
from tests.support.clients.group_frames import OFFSET_COMMIT_VERSION, commit_frame, heartbeat_frame
from tests.support.processes import cpu_seconds, resident_bytes

CONNECTIONS, IN_FLIGHT = 8, 5
DIFFERENT_COMMITS = 64
IMPATIENT_MS = 100
TOPIC = "groups"
METADATA = {"": [b""], ', metadata "m"': [b"m"], ", metadata of 1-60 bytes": [b"x" * (1 + number * 7 % 60) for number in range(60)]}
"""By what is added to the metric's name."""
AS_FAST = "<= Apache Kafka"
IS_SMALL = at_most(3_000)


@dataclass(frozen=True)
class Size:
    """How much is done: `rejoins` and `forms` are how often warm, of which the last third counts."""

    members: tuple[int, int, int]
    rejoins: tuple[int, int, int]
    forms: int
    partitions: int
    seconds: float
    memory: tuple[tuple[int, int], ...]  # groups, members of each
    settle_seconds: float
    heartbeat_ms: int


LARGE = Size(
    members=(10, 100, 1_000),
    rejoins=(300, 150, 45),
    forms=5,
    partitions=100,
    seconds=4,
    memory=((5, 1_000), (1, 5_000)),
    settle_seconds=2,
    heartbeat_ms=HEARTBEAT_MS,
)
SMALL = Size(
    members=(2, 5, 20),
    rejoins=(3, 3, 3),
    forms=1,
    partitions=10,
    seconds=0.1,
    memory=((2, 300),),
    settle_seconds=0.1,
    heartbeat_ms=300,
)


class Asides:
    """Notes below the table, by what was measured and on which broker."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._found: dict[tuple[str, str, str], list[float]] = {}

    def add(self, what: str, peer: str, value: float, shape: str = "{:.0%}") -> None:
        self._found.setdefault((what, shape, peer), []).append(value)

    def report(self) -> None:
        for what, shape in dict.fromkeys(key[:2] for key in self._found):
            values = [f"{key[2]} {shape.format(median(found))}" for key, found in self._found.items() if key[0] == what]
            self._report.note(f"{what}: {', '.join(values)}")


@dataclass(frozen=True)
class Bench:
    """Where measurements go."""

    report: Report
    asides: Asides
    size: Size

    def add_spent(self, metric: Metric, what: str, peer: Any, spent: Spent) -> None:
        self.report.add(metric, peer.kind, spent.seconds * (1 if metric.unit == "s" else 1_000))
        self.asides.add(f"the driver's own share of a core, {what}", peer.kind, spent.cpu_seconds / spent.seconds)

    def add_rate(self, metric: Metric, peer: Any, driver: GroupDriver, requests: list[list[bytes]], in_flight: int, each: int = 1) -> None:
        """A stream is run and noted; every request counts `each`."""
        begin = cpu_seconds(peer.pid)
        rate = driver.stream(requests, in_flight, self.size.seconds)
        used = (cpu_seconds(peer.pid) - begin) / self.size.seconds
        self.report.add(metric, peer.kind, rate.per_second * each / 1_000)
        self.asides.add(f"the driver's own share of a core, {metric.name}", peer.kind, rate.driver_share)
        self.asides.add(f"the broker's processor time a request, {metric.name}", peer.kind, used / rate.per_second * 1e6, "{:.0f} us")


def at_least_half_of_kafkas(ours: float, theirs: float | None) -> bool:
    return at_least_kafkas(ours * 2, theirs)


def at_most_a_third_of_kafkas(ours: float, theirs: float | None) -> bool:
    return at_most_kafkas(ours * 3, theirs)


def formed(members: int, heartbeat_ms: int, when: str) -> Metric:
    """The target is about the first group after a start, with heartbeats as clients have them: there Apache Kafka is slow."""
    name = f"group of {members:,} formed {when}, beats every {heartbeat_ms:,} ms"
    if when == "right after start" and heartbeat_ms == HEARTBEAT_MS:
        return Metric(name, "s", "<= a third of Apache Kafka's", at_most_a_third_of_kafkas)
    return Metric(name, "s")


def rejoined(members: int, when: str) -> Metric:
    has_target = members >= 100 and when == "warm"
    return Metric(f"{members:,} members rejoin, {when}", "ms", AS_FAST if has_target else "", at_most_kafkas if has_target else None)


def commits(partitions: int, groups: str, when: str, metadata: str = "") -> Metric:
    what = f"OffsetCommit, {partitions} partition{'s' * (partitions > 1)} a request{metadata}, {groups}, {when}"
    return (
        Metric(what, "k offsets/s", ">= half of Apache Kafka's", at_least_half_of_kafkas) if when == "warm" else Metric(what, "k offsets/s")
    )


def form(bench: Bench, peer: Any, driver: GroupDriver, group: str, when: str) -> Spent:
    spent = driver.form([group] * len(driver.connections))
    bench.add_spent(formed(len(driver.connections), driver.heartbeat_ms, when), "a group formed", peer, spent)
    return spent


def large_group(bench: Bench, peer: Any) -> None:
    """The largest group: formed and joined again right after the start, then warm."""
    members, rejoins = bench.size.members[-1], bench.size.rejoins[-1]
    with GroupDriver(peer.bootstrap_servers, members, heartbeat_ms=bench.size.heartbeat_ms) as driver:
        driver.wait_for_coordinator("first")
        form(bench, peer, driver, "first", "right after start")
        bench.add_spent(rejoined(members, "first after start"), f"{members:,} members rejoin", peer, driver.rejoin())
        warm_rejoins(bench, peer, driver, rejoins)
        for number in range(bench.size.forms):
            driver.form([f"warming-{number}"] * members)
        for number in range(bench.size.forms):
            form(bench, peer, driver, f"warm-{number}", "warm")


def impatient_group(bench: Bench, peer: Any) -> None:
    """The largest group with heartbeats so often that hardly any member waits for one."""
    members = bench.size.members[-1]
    with GroupDriver(peer.bootstrap_servers, members, heartbeat_ms=IMPATIENT_MS) as driver:
        driver.wait_for_coordinator("first")
        form(bench, peer, driver, "first", "right after start")
        for number in range(bench.size.forms):
            driver.form([f"warming-{number}"] * members)
        for number in range(bench.size.forms):
            form(bench, peer, driver, f"warm-{number}", "warm")


def warm_rejoins(bench: Bench, peer: Any, driver: GroupDriver, count: int) -> None:
    """The median of the last third of many goes into the report as one value."""
    members, counted = len(driver.connections), max(1, count // 3)
    for _ in range(count - counted):
        driver.rejoin()
    begin = cpu_seconds(peer.pid)
    spent = sorted(driver.rejoin() for _ in range(counted))
    used = (cpu_seconds(peer.pid) - begin) / counted
    bench.add_spent(rejoined(members, "warm"), f"{members:,} members rejoin", peer, spent[counted // 2])
    bench.asides.add(f"the broker's processor time a member, {members:,} members rejoin", peer.kind, used / members * 1e6, "{:.0f} us")


def small_groups(bench: Bench, peer: Any) -> None:
    """Smaller groups, each right after the start as far as one can be after another; then warm."""
    drivers = []
    for members in bench.size.members[:-1]:
        driver = GroupDriver(peer.bootstrap_servers, members, heartbeat_ms=IMPATIENT_MS)
        drivers.append(driver)
        driver.wait_for_coordinator(f"group-{members}")
        driver.form([f"group-{members}"] * members)
        bench.add_spent(rejoined(members, "first after start"), f"{members:,} members rejoin", peer, driver.rejoin())
    for driver, count in zip(drivers, bench.size.rejoins):
        warm_rejoins(bench, peer, driver, count)
        driver.close()


def commit_requests(driver: GroupDriver, partitions: int, metadata: list[bytes]) -> list[list[bytes]]:
    """For each connection requests about partitions of its own, with offsets that go up."""
    requests = []
    for number, member in enumerate(driver.connections):
        own = range(number * partitions, (number + 1) * partitions)
        named = (member.group.name, member.generation, member.member_id, TOPIC.encode(), own)
        requests.append([commit_frame(*named, offset, metadata) for offset in range(DIFFERENT_COMMITS)])
    return requests


def check_commit(driver: GroupDriver, frame: bytes) -> None:
    """An answer without errors, read by the whole codec."""
    schema: Any = load_response_schema(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION)
    answer = driver.connections[0].ask(frame)[4:]
    _, header_bytes = entity_reader(schema.__header_schema__)(answer, 0)
    response, _ = entity_reader(schema)(answer, header_bytes)
    codes = {int(partition.error_code) for topic in response.topics for partition in topic.partitions}
    assert codes == {0}, response


def streams(bench: Bench, peer: Any) -> None:
    """Commits of one group's members, commits of a group on each connection, heartbeats."""
    many = bench.size.partitions
    make_topic(peer, TOPIC, CONNECTIONS * many)
    with GroupDriver(peer.bootstrap_servers, CONNECTIONS, heartbeat_ms=IMPATIENT_MS) as driver:
        for groups, names in (("one group", ["one"] * CONNECTIONS), ("8 groups", [f"each-{number}" for number in range(CONNECTIONS)])):
            for name in set(names):
                driver.wait_for_coordinator(name)
            driver.form(names)
            for partitions, (what, metadata) in product((1, many), METADATA.items()):
                requests = commit_requests(driver, partitions, metadata)
                check_commit(driver, requests[0][0])
                if groups == "one group" and partitions == 1 and not what:
                    bench.add_rate(commits(1, groups, "first seconds after start"), peer, driver, requests, IN_FLIGHT)
                driver.stream(requests, IN_FLIGHT, bench.size.seconds)
                bench.add_rate(commits(partitions, groups, "warm", what), peer, driver, requests, IN_FLIGHT, partitions)
        measure_heartbeats(bench, peer, driver, IN_FLIGHT)
    with GroupDriver(peer.bootstrap_servers, bench.size.members[-1], heartbeat_ms=IMPATIENT_MS) as driver:
        driver.wait_for_coordinator("beating")
        driver.form(["beating"] * len(driver.connections))
        measure_heartbeats(bench, peer, driver, 1)


def measure_heartbeats(bench: Bench, peer: Any, driver: GroupDriver, in_flight: int) -> None:
    frames = [[heartbeat_frame(each.group.name, each.generation, each.member_id)] * IN_FLIGHT for each in driver.connections]
    driver.stream(frames, in_flight, bench.size.seconds)
    metric = Metric(f"Heartbeat, {len(frames):,} connections, {in_flight} under way on each", "k requests/s")
    bench.add_rate(metric, peer, driver, frames, in_flight)


def memory(bench: Bench, peer: Any, *, groups: int, members: int) -> None:
    """Resident growth by members on connections that are there already, and have asked once."""

    def settled_bytes() -> int:
        time.sleep(bench.size.settle_seconds)
        return resident_bytes(peer.pid)

    bare = settled_bytes()
    with GroupDriver(peer.bootstrap_servers, groups * members, heartbeat_ms=IMPATIENT_MS) as driver:
        driver.wait_for_coordinator("memory-0")
        frame = heartbeat_frame(b"unknown", 0, b"")
        for connection in driver.connections:
            connection.ask(frame)
        connected = settled_bytes()
        driver.form([f"memory-{number // members}" for number in range(groups * members)])
        driver.rejoin()
        grown = settled_bytes() - connected
        count = groups * members
        bench.report.add(Metric(f"memory a connection, {count:,} of them", "B"), peer.kind, (connected - bare) / count)
        name = f"memory a member, {groups} group{'s' * (groups > 1)} of {members:,}"
        bench.report.add(Metric(name, "B", "<= 3,000 B", IS_SMALL), peer.kind, grown / count)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Groups")
    bench = Bench(report, Asides(report), SMALL if wanted.small else LARGE)
    parts: dict[str, Callable[[Bench, Any], None]] = {
        "large group": large_group,
        "impatient group": impatient_group,
        "small groups": small_groups,
        "streams": streams,
    }
    for groups, members in bench.size.memory:
        parts[f"memory, {groups} x {members}"] = partial(memory, groups=groups, members=members)
    for _ in range(wanted.rounds):
        for name, part in parts.items():
            if wanted.only in name:
                for peer in peers_in_turn(wanted.peers):
                    part(bench, peer)
    bench.asides.report()
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
