"""The Java client, from Apache Kafka's own jars, as members of groups on both brokers: its callbacks, and its reasons at the broker.

One Java program (tests/java/Consumers.java) hosts the consumers of all tests here; skipped where Maven or a JDK is missing.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import ToolMissing
from ottla.client.admin.client import AdminClient
from ottla.client.settings import ClientSettings
from ottla.history.sources.evidence import Kind
from ottla.history.sources.offsets_topic import OffsetsTopic
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.waiting import wait_until
from tests.support.processes import JavaProgram, compile_java

SOURCE = Path(__file__).parent.parent / "java" / "Consumers.java"
ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
LIBRARIES = {
    "range": ("aiokafka", "kafka-python", "confluent-kafka", "ottla"),
    "roundrobin": ("aiokafka", "kafka-python", "confluent-kafka", "ottla"),
    "sticky": ("aiokafka", "kafka-python", "ottla"),
}
"""Which libraries have an assignor, beside Java's."""
PARTITIONS = 4
EVERY_PARTITION = set(range(PARTITIONS))
SETTINGS = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "100",
    "fetch.max.wait.ms": "100",
    "retry.backoff.ms": "20",
    "reconnect.backoff.ms": "20",
}
REBALANCE_CALLBACKS = ("assigned", "revoked", "lost")


@pytest.fixture(scope="module")
def program(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProgram]:
    """The program that hosts all consumers, started once."""
    directory = tmp_path_factory.mktemp("java")
    jars = reference.class_path()
    try:
        class_path = compile_java(SOURCE, jars, directory)
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with JavaProgram("Consumers", class_path, error_path=directory / "errors") as program:
        yield program


class Consumer:
    """One Java consumer: its events since it started."""

    def __init__(self, program: JavaProgram, name: str, since: int) -> None:
        self.name = name
        self._program, self._since = program, since

    def command(self, *words: str) -> None:
        """A command to the program, without waiting for what comes of it."""
        self._program.send(" ".join((self.name, *words)))

    def does(self, *words: str) -> None:
        """A command that is carried out when this returns."""
        self.command(*words)
        self.wait_for(lambda: self.events_of(words[0]), f"{self.name} to {words[0]}")

    def events_of(self, *kinds: str) -> list[dict[str, Any]]:
        """Its events of these kinds, in order."""
        return [each for each in self._program.events[self._since :] if each.get("consumer") == self.name and each["event"] in kinds]

    def owned(self) -> set[int]:
        """The partitions that it has now, by its callbacks."""
        owned: set[int] = set()
        for event in self.events_of(*REBALANCE_CALLBACKS):
            owned = owned | set(event["partitions"]) if event["event"] == "assigned" else owned - set(event["partitions"])
        return owned

    def generation(self) -> int:
        """The generation of its last assignment."""
        return int(self.events_of("assigned")[-1]["generation"])

    def records(self) -> int:
        """How many records it has read."""
        return sum(int(each["count"]) for each in self.events_of("records"))

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        """Until the condition holds, looked at with each event of the program."""
        return self._program.wait_for(lambda _: condition(), what)


class Team:
    """The consumers of one group on one topic, and what the broker says about the group."""

    def __init__(self, program: JavaProgram, broker: Any, raw_client: Any, topic: str, group: str) -> None:
        self.program, self.broker, self.topic, self.group = program, broker, topic, group
        self._client = raw_client
        self._names = (f"{group}-{number}" for number in itertools.count(1))
        self.live: list[Consumer] = []

    def start(self, *assignors: str, **settings: str) -> Consumer:
        """A new consumer; `instance=` makes it static, other settings have underscores for dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        own = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": self.group,
            "partition.assignment.strategy": ",".join(ASSIGNORS[each] for each in assignors),
        }
        consumer = Consumer(self.program, next(self._names), len(self.program.events))
        words = [f"{name}={value}" for name, value in (SETTINGS | own | named).items()]
        consumer.command("start", self.topic, *words)
        self.live.append(consumer)
        return consumer

    def close(self, consumer: Consumer) -> None:
        """Close a consumer in order."""
        self.live.remove(consumer)
        consumer.does("close")

    def divided(self, *consumers: Consumer) -> None:
        """Wait until each of these has some partitions, and together they have each partition once."""

        def is_divided() -> bool:
            shares = [each.owned() for each in consumers]
            return all(shares) and sum(map(len, shares)) == PARTITIONS and set().union(*shares) == EVERY_PARTITION

        consumers[0].wait_for(is_divided, "all partitions to have one owner")

    def remove(self, reason: str, *who: str) -> None:
        """Admin.removeMembersFromConsumerGroup, by instance ids or "all"."""
        since = len(self.program.events)
        self.program.send(" ".join((self.broker.bootstrap_servers, "remove", self.group, reason.replace(" ", "_"), *who)))
        condition = lambda events: [each for each in events if each.get("consumer") == self.group]  # noqa: E731
        (answer,) = self.program.wait_for(condition, "the members to be removed", since=since)
        assert answer["event"] == "removed", answer

    def described(self) -> Any:
        """The group as DescribeGroups gives it."""
        (group,) = self._client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[self.group]).groups
        return group

    def protocol(self) -> str:
        """What the group's members agree on, once it is stable."""
        wait_until(lambda: self.described().group_state == "Stable", lambda: f"a stable group, not {self.described()}")
        return str(self.described().protocol_data)

    def wait_for_reasons(self, *said: str) -> None:
        """Wait until the broker has reported each of these reasons of a client: Ottla by an event, Apache Kafka in its log."""
        for each in said:
            wait_until(lambda each=each: any(each in line for line in self._lines()), lambda each=each: f"{each!r} in {self._lines()}")

    def _lines(self) -> list[str]:
        if self.broker.kind == "ottla":
            return [event["client_reason"] or "" for event in self.events("trigger")]
        return [line for line in self.broker.log_path.read_text(errors="replace").splitlines() if self.group in line]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Our broker's events of this group so far."""
        from confluent_kafka import Consumer as Reader
        from confluent_kafka import TopicPartition

        assert self.broker.kind == "ottla"
        reader = Reader(
            {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        )
        place = TopicPartition("__ottla_group_events", 0, 0)
        _, end = reader.get_watermark_offsets(place, timeout=60)
        reader.assign([place])
        events: list[dict[str, Any]] = []
        while reader.position([place])[0].offset < end:
            events += [json.loads(each.value()) for each in reader.consume(1000, 0.1)]
        reader.close()
        return [each for each in events if each["group"] == self.group and each["kind"] in kinds]


@pytest.fixture
def team(program: JavaProgram, kafka_broker: Any, raw_client: Any, library_on: Any, unique_name: Callable[[str], str]) -> Iterator[Team]:
    """A topic with 40 records in 4 partitions, and a group that has no members yet."""
    library, topic = library_on(kafka_broker), unique_name("topic")
    library.create_topic(topic, PARTITIONS)
    library.produce(topic, [(number % PARTITIONS, b"record") for number in range(40)])
    team = Team(program, kafka_broker, raw_client, topic, unique_name("group"))
    yield team
    for consumer in team.live:
        consumer.command("close")


def partitions_of(events: Sequence[dict[str, Any]]) -> list[tuple[str, set[int]]]:
    return [(each["event"], set(each["partitions"])) for each in events]


def test_eager_consumers_share_and_say_why_they_go(team: Team) -> None:
    first = team.start("range")
    first.wait_for(lambda: first.records() == 40, "every record")
    first.does("commit")
    assert first.owned() == EVERY_PARTITION
    second = team.start("range")
    team.divided(first, second)
    assert partitions_of(first.events_of("revoked")) == [("revoked", EVERY_PARTITION)], "eager: everything is given up first"
    assert [len(each.owned()) for each in (first, second)] == [2, 2]
    team.close(second)
    team.divided(first)
    team.wait_for_reasons("the consumer is being closed")
    generation = first.generation()
    first.command("rebalance", "the_nightly_look")
    first.wait_for(lambda: first.generation() > generation and first.owned() == EVERY_PARTITION, "the rebalance that was asked for")
    team.wait_for_reasons("the nightly look")
    first.does("unsubscribe")
    assert first.owned() == set()
    team.wait_for_reasons("the consumer unsubscribed from all topics")
    assert team.described().group_state == "Empty"
    assert first.records() == 40
    assert second.records() == 0, "what was committed is not read again"


def test_cooperative_consumers_give_up_only_what_moves(team: Team) -> None:
    first = team.start("cooperative-sticky")
    team.divided(first)
    second = team.start("cooperative-sticky")
    team.divided(first, second)
    moved = second.owned()
    assert len(moved) == 2
    given_up = [each for each in partitions_of(first.events_of("revoked")) if each[1]]
    assert given_up == [("revoked", moved)], "and nothing else was stopped"
    before = len(first.events_of(*REBALANCE_CALLBACKS))
    team.close(second)
    team.divided(first)
    later = [each for each in partitions_of(first.events_of(*REBALANCE_CALLBACKS)[before:]) if each[1]]
    assert later == [("assigned", moved)]
    assert team.protocol() == "cooperative-sticky"


def test_a_static_member_restarts_without_a_rebalance(team: Team) -> None:
    stays, restarts = team.start("range", group_instance_id="gate-1"), team.start("range", group_instance_id="gate-2")
    team.divided(stays, restarts)
    generation, owned, events = stays.generation(), restarts.owned(), len(stays.events_of(*REBALANCE_CALLBACKS))
    team.close(restarts)
    again = team.start("range", group_instance_id="gate-2")
    team.divided(stays, again)
    assert again.owned() == owned
    assert again.generation() == generation == stays.generation()
    assert len(stays.events_of(*REBALANCE_CALLBACKS)) == events, "the other one had no rebalance"
    assert again.events_of("assigned")[0]["member_id"] != restarts.events_of("assigned")[-1]["member_id"]
    if team.broker.kind == "ottla":
        (replaced,) = team.events("static_replaced")
        assert (replaced["instance_id"], replaced["generation"]) == ("gate-2", generation)


def test_the_first_of_two_processes_with_one_instance_id_is_fenced(team: Team) -> None:
    first = team.start("range", group_instance_id="gate-1")
    team.divided(first)
    second = team.start("range", group_instance_id="gate-1")
    (error,) = first.wait_for(lambda: first.events_of("error"), "the first to be fenced")
    team.live.remove(first)
    assert error["error"] == "FencedInstanceIdException"
    team.divided(second)
    assert second.generation() == first.generation()
    if team.broker.kind == "ottla":
        assert [each["kind"] for each in team.events("static_replaced", "static_fenced")][:2] == ["static_replaced", "static_fenced"]


def test_the_assignor_is_changed_by_rolling_restarts(team: Team) -> None:
    eager, both, cooperative = ("range",), ("cooperative-sticky", "range"), ("cooperative-sticky",)
    members = [team.start(*eager) for _ in range(3)]
    team.divided(*members)
    refused = team.start(*cooperative)
    (error,) = refused.wait_for(lambda: refused.events_of("error"), "one that has nothing in common with the others to be refused")
    team.live.remove(refused)
    assert error["error"] == "InconsistentGroupProtocolException"
    chosen = [team.protocol()]
    for assignors in (both, cooperative):
        for place in range(3):
            team.close(members[place])
            members[place] = team.start(*assignors)
            team.divided(*members)
            chosen.append(team.protocol())
    assert not [each for member in members for each in member.events_of("error")]
    assert chosen == ["range"] * 3 + ["cooperative-sticky"] * 4, "the new one from the moment at which all members have it"
    if team.broker.kind == "ottla":
        rounds = [each["protocol"] for each in team.events("join_completed")]
        assert [protocol for protocol, _ in itertools.groupby(rounds)] == ["range", "cooperative-sticky"], "and never none"


def test_an_administrator_removes_members(team: Team) -> None:
    members = [team.start("range", group_instance_id=f"gate-{number}") for number in range(3)]
    team.divided(*members)
    generation = members[0].generation()
    for member in members[1:]:
        team.close(member)
    assert len(team.described().members) == 3, "static members do not leave when they are closed"
    team.remove("gates 1 and 2 are shut", "gate-1", "gate-2")
    team.divided(members[0])
    assert members[0].generation() == generation + 1, "both in one rebalance"
    team.wait_for_reasons("gates 1 and 2 are shut")
    if team.broker.kind == "ottla":
        removed = [(each["instance_id"], each["coalesced"]) for each in team.events("trigger") if each["trigger"] == "ADMIN_REMOVE"]
        assert removed == [("gate-1", False), ("gate-2", True)]

    dynamic = team.start("range")
    team.divided(members[0], dynamic)
    team.close(members[0])
    team.remove("the airport is shut", "all")
    dynamic.wait_for(lambda: dynamic.events_of("lost") and dynamic.owned() == EVERY_PARTITION, "the one that lives to come back")
    team.wait_for_reasons("the airport is shut")
    assert [each.group_instance_id for each in team.described().members] == [None]


def test_a_consumer_that_does_not_poll_leaves_and_says_so(team: Team) -> None:
    slow, other = team.start("range", max_poll_interval_ms="1000"), team.start("range")
    team.divided(slow, other)
    slow.does("pause")
    other.wait_for(lambda: other.owned() == EVERY_PARTITION, "the other one to take over")
    team.wait_for_reasons("consumer poll timeout has expired.")
    if team.broker.kind == "ottla":
        left = [each for each in team.events("trigger") if each["trigger"] == "POLL_TIMEOUT"]
        assert {each["client_reason"] for each in left} == {"consumer poll timeout has expired."}
        assert left[-1]["member_id"] == slow.events_of("assigned")[-1]["member_id"]
    slow.command("resume")
    slow.wait_for(lambda: slow.events_of("lost"), "it to notice that it has lost its partitions")
    team.divided(slow, other)


class PolledMember:
    """A member of another library in a thread of its own, which polls it and does what else is asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.places: list[tuple[int, int]] = []
        self.owned: set[int] = set()
        self._thread = ThreadPoolExecutor(1)
        self._member: Any = None
        self._is_over = False
        self._started = self._thread.submit(self._start, make)

    def _start(self, make: Callable[[], Any]) -> None:
        self._member = make()
        self._thread.submit(self._poll)

    def _poll(self) -> None:
        if not self._is_over:
            self.places += [(partition, offset) for partition, offset, _ in self._member.poll()]
            self.owned = {partition for _, partition in self._member.assignment()}
            self._thread.submit(self._poll)

    def started(self) -> None:
        """Raise what the start raised; return when it has started."""
        self._started.result(SECONDS_MAX)

    def count(self) -> int:
        return len(self.places)

    def commit(self) -> None:
        self._thread.submit(self._member.commit).result(SECONDS_MAX)

    def close(self) -> None:
        self._is_over = True
        self._thread.submit(lambda: self._member.close()).result(SECONDS_MAX)
        self._thread.shutdown()


class JavaMember:
    """A Java consumer with the same face; its records are counted."""

    places: tuple[tuple[int, int], ...] = ()

    def __init__(self, team: Team, assignor: str) -> None:
        self._consumer = team.start(assignor)
        self._team = team

    @property
    def owned(self) -> set[int]:
        return self._consumer.owned()

    def started(self) -> None:
        pass

    def count(self) -> int:
        return self._consumer.records()

    def commit(self) -> None:
        commits = len(self._consumer.events_of("commit"))
        self._consumer.command("commit")
        self._consumer.wait_for(lambda: len(self._consumer.events_of("commit")) > commits, "the commit")

    def close(self) -> None:
        self._team.close(self._consumer)


class MixedGroup:
    """One group of members of several libraries, by the libraries' names."""

    def __init__(self, team: Team, library_on: Any, assignor: str) -> None:
        self._team = team
        self._library = library_on(team.broker)
        self.members: dict[str, Any] = {}
        for name in LIBRARIES[assignor]:
            library = library_on(team.broker, name)
            self.members[name] = PolledMember(lambda library=library: library.member(team.group, team.topic, assignor, heartbeat_ms=100))
        self.members["java"] = JavaMember(team, assignor)
        for member in self.members.values():
            member.started()

    def settle(self) -> None:
        """Wait until each member has some partitions, and together they have each partition once."""

        def is_settled() -> bool:
            shares = [member.owned for member in self.members.values()]
            return all(shares) and sorted(number for share in shares for number in share) == list(range(MIXED_PARTITIONS))

        wait_until(is_settled, lambda: f"one owner for each partition: {self.owned()}", seconds=SECONDS_MAX)

    def owned(self) -> dict[str, list[int]]:
        return {name: sorted(member.owned) for name, member in self.members.items()}

    def read(self, per_partition: int) -> None:
        """Write records, wait until each was read once, and commit."""
        before = self._count()
        self._library.produce(self._team.topic, [(number, b"v") for number in range(MIXED_PARTITIONS)] * per_partition)
        wanted = before + per_partition * MIXED_PARTITIONS
        wait_until(lambda: self._count() >= wanted, lambda: f"{wanted} records, not {self._count()}", seconds=SECONDS_MAX)
        places = [place for member in self.members.values() for place in member.places]
        assert (self._count(), len(places)) == (wanted, len(set(places))), "each record once"
        for member in self.members.values():
            member.commit()

    def _count(self) -> int:
        return sum(member.count() for member in self.members.values())

    def committed(self) -> set[int]:
        """The committed offsets of all partitions."""
        with AdminClient(self._settings()) as admin:
            found = admin.committed([self._team.group])[self._team.group]
        assert isinstance(found, dict), found
        return {each.offset for each in found.values()}

    def leader(self) -> str:
        """The library of the leader, as the group's record says."""
        with OffsetsTopic([self._team.group]) as source:
            source.add_cluster(self._settings())
            last = [each for each in source.evidence() if each.kind is Kind.SYNC_COMPLETED][-1]
        (client,) = {each.client_id for each in last.members or () if each.member_id == last.leader}
        (name,) = {name for name, begin in CLIENT_IDS.items() if client.startswith(begin)}
        return name

    def _settings(self) -> ClientSettings:
        return ClientSettings(bootstrap_servers=self._team.broker.bootstrap_servers)


MIXED_PARTITIONS = 10
SECONDS_MAX = 40
CLIENT_IDS = {
    "ottla": "ottla",
    "confluent-kafka": "rdkafka",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
    "java": "consumer-",
}
"""How the client ids of the libraries begin."""


@pytest.mark.parametrize("assignor", LIBRARIES)
def test_one_group_of_members_of_every_library(team: Team, library_on: Any, unique_name: Callable[[str], str], assignor: str) -> None:
    team.topic = unique_name("mixed")
    library_on(team.broker).create_topic(team.topic, MIXED_PARTITIONS)
    group = MixedGroup(team, library_on, assignor)
    try:
        group.settle()
        assert team.protocol() == assignor
        group.read(3)
        assert group.committed() == {3}
        leaders = [group.leader()]
        while len(group.members) > 1:  # the leader goes, and a member of another library follows it
            group.members.pop(leaders[-1]).close()
            group.settle()
            leaders.append(group.leader())
        assert sorted(leaders) == sorted([*LIBRARIES[assignor], "java"])
        group.read(1)
        assert group.committed() == {4}
    finally:
        for member in group.members.values():
            member.close()
