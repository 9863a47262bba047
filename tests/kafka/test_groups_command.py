"""`ottla groups` beside Apache Kafka's kafka-consumer-groups: the same command lines, on Apache Kafka and on our broker, print the same.

Each tool has groups of its own, made in the same way, so that both may change them. Ids and times are masked; rows whose order Kafka leaves
to a hash table are compared in alphabetical order, and so are members. Of a usage error the sentence is compared, of an exception its
message: neither Kafka's help behind the one nor the stack trace behind the other.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until
from tests.support.reference.apache_kafka import TOOLS_LOG4J_YAML as LOG4J_YAML
from tests.support.reference.apache_kafka import KafkaTools, Printed

pytestmark = pytest.mark.kafka

JAVA_PROGRAM = Path(__file__).parent.parent / "java" / "KafkaTools.java"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = {"one": 1, "many": 3, "other": 2, "doomed": 1, "bare": 1}
FIRST_MS = 1_600_000_000_000
PREFIXES = {"theirs": "t", "ours": "o"}

LOOK = """
--list
--list --state
--list --type
--list --type --state
--list --state stable
--list --state Empty,stable
--list --type classic --state dead
--list --state foo
--list --type foo
--list --state Empty --state Stable
--describe --group P-stable
--describe --group P-stable --verbose
--describe --group P-stable --offsets
--describe --group P-stable --members
--describe --group P-stable --members --verbose
--describe --group P-stable --state
--describe --group P-stable --state --verbose
--describe --group P-static --members
--describe --group P-static --members --verbose
--describe --group P-idle
--describe --group P-idle --members --verbose
--describe --group P-empty
--describe --group P-empty --members
--describe --group P-empty --state
--describe --group P-nothing
--describe --group P-nothing --members
--describe --group P-simple
--describe --group P-gone
--describe --group P-onlygone --state
--describe --group P-dead
--describe --group P-never --members
--describe --group P-never --state
--describe --group P-empty --group P-stable --group P-empty
--describe --group P-empty --group P-never
--describe --all-groups --state
--describe --group P-connect
--describe --group=
--delete --group=
--delete-offsets --group= --topic P-one:0
--reset-offsets --group= --topic P-one --to-latest --dry-run
--list --state= --type=
--describe --group P-stable --bootstrap-server nonsense
"""

MISTAKES = """
--list --group P-empty
--list --topic x
--list --members
--list --verbose
--list --bogus
--describe
--describe --list
--describe --group P-empty --all-groups
--describe --group P-empty --members --offsets
--describe --group P-empty --state Stable
--describe --group P-empty --topic x
--describe --group P-empty --type x
--describe --group P-empty --timeout abc
--describe --group P-empty --timeout 0
--describe --group P-empty --command-config /no/such/file
--delete
--delete --group P-empty --topic P-one
--delete-offsets --group P-empty
--delete-offsets --group P-empty --group P-simple --topic P-one
--group P-empty
--reset-offsets
--reset-offsets --group P-empty
--reset-offsets --group P-empty --to-earliest
--reset-offsets --group P-empty --to-earliest --to-latest --all-topics
--reset-offsets --group P-empty --to-earliest --all-topics --dry-run --execute
--reset-offsets --group P-empty --to-offset abc --all-topics --dry-run
--reset-offsets --group P-empty --shift-by 1 --shift-by 2 --all-topics --dry-run
--validate-regex a+b
--validate-regex [
--validate-regex (?=a)
"""

RESET = """
--reset-offsets --group P-empty --all-topics --dry-run --to-latest
--reset-offsets --group P-empty --all-topics --dry-run --to-current
--reset-offsets --group P-empty --all-topics --dry-run --shift-by -5
--reset-offsets --group P-empty --topic P-other --dry-run --shift-by 5
--reset-offsets --group P-empty --topic P-other --topic P-one:0 --dry-run --to-current
--reset-offsets --group P-empty --all-topics --dry-run --to-datetime 2020-09-13T14:26:50.000+02:00
--reset-offsets --group P-empty --all-topics --dry-run --to-datetime 2020-09-13T12:26:50
--reset-offsets --group P-empty --all-topics --dry-run --to-datetime nonsense
--reset-offsets --group P-empty --all-topics --dry-run --by-duration PT1H
--reset-offsets --group P-empty --all-topics --dry-run --by-duration P1Y
--reset-offsets --group P-simple --group P-never --dry-run --from-file DIR/P-two.csv
--reset-offsets --group P-empty --dry-run --from-file DIR/none.csv
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-many:0,x
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-many:
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-many:0,99
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-nope:0
--reset-offsets --group P-never --dry-run --to-earliest --all-topics --export
--reset-offsets --group P-empty --all-topics --to-earliest
--reset-offsets --group P-empty --all-topics --dry-run --to-offset 1000
--reset-offsets --group P-empty --all-topics --dry-run --to-offset 2
--reset-offsets --group P-empty --all-topics --dry-run --shift-by 5
--reset-offsets --group P-empty --all-topics --dry-run --to-datetime 2020-09-13T12:26:50.000
--reset-offsets --group P-empty --topic P-bare --dry-run --to-datetime 2030-09-13T12:26:50.000
--reset-offsets --group P-empty --all-topics --dry-run --by-duration P10000D
--reset-offsets --group P-empty --dry-run --from-file DIR/P-one.csv
--reset-offsets --group P-empty --group P-simple --dry-run --from-file DIR/P-two.csv
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-many:0,2
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-nope
--reset-offsets --group P-never --dry-run --to-earliest --topic P-one
--reset-offsets --group P-never --dry-run --to-earliest --all-topics
--reset-offsets --group P-stable --group P-empty --dry-run --to-earliest --all-topics
--reset-offsets --group P-empty --dry-run --to-earliest --all-topics --export
--reset-offsets --group P-empty --group P-simple --dry-run --to-earliest --all-topics --export
--reset-offsets --group P-empty --dry-run --to-earliest --topic P-a-name-of-more-than-24-characters --export
--reset-offsets --group P-simple --execute --to-offset 5 --all-topics
--reset-offsets --group P-new --execute --to-offset 50 --topic P-one --export
--describe --group P-simple
--describe --group P-new --verbose
"""

DELETE = """
--delete-offsets --group P-never --topic P-one
--delete-offsets --group P-never --topic P-nope
--delete-offsets --group P-empty --topic P-many:0 --topic P-other
--delete-offsets --group P-empty --topic P-many:7
--delete-offsets --group P-empty --topic P-nope
--delete-offsets --group P-empty --topic P-nope:0
--delete-offsets --group P-empty --topic P-many:x
--delete-offsets --group P-stable --topic P-many:0
--delete-offsets --group P-stable --topic P-one --topic P-other --topic P-nope
--describe --group P-empty
--delete --group P-stable
--delete --group P-never
--delete --group P-new
--delete --group P-stable --group P-gone --group P-never
--delete --group P-onlygone --group P-empty
--list --state empty
"""

MODERN = """
--list --type --state
--list --type consumer
--describe --group P-modern
--describe --group P-modern --members
--describe --group P-modern --members --verbose
--describe --group P-modern --state
--describe --group P-modern --state --verbose
--reset-offsets --group P-modern --to-earliest --all-topics --dry-run
--delete-offsets --group P-modern --topic P-many:0
--delete --group P-modern
"""


class Members:
    """Consumers of confluent-kafka that a thread keeps polled."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._consumers: list[Any] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._over.wait(0.01):
            with self._lock:
                for consumer in self._consumers:
                    consumer.poll(0)

    def join(self, group: str, topics: Sequence[str], client_id: str, **settings: str) -> Any:
        from confluent_kafka import Consumer

        common = {"bootstrap.servers": self.servers, "group.id": group, "client.id": client_id, "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer(common | {name.replace("_", "."): value for name, value in settings.items()})
        consumer.subscribe(list(topics))
        with self._lock:
            self._consumers.append(consumer)
        return consumer

    def leave(self, consumer: Any) -> None:
        with self._lock:
            self._consumers.remove(consumer)
        consumer.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda consumer: consumer.close(), self._consumers))


def make_topics(servers: str, prefix: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient as Confluent
    from confluent_kafka.admin import NewTopic

    confluent = Confluent({"bootstrap.servers": servers, "log_level": 0})
    counts = {f"{prefix}-{name}": count for name, count in TOPICS.items()} | {f"{prefix}-a-name-of-more-than-24-characters": 1}
    topics = [NewTopic(name, count, 1, config={"retention.ms": "-1"}) for name, count in counts.items()]
    for future in confluent.create_topics(topics).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 5, "enable.idempotence": True})
    for name, count in counts.items():
        for number in range(0 if name.endswith("-bare") else 20 * count):
            producer.produce(name, b"v", partition=number % count, timestamp=FIRST_MS + number // count * 1000)
    assert producer.flush(60) == 0
    for future in confluent.delete_records([Place(f"{prefix}-many", 2, 5)]).values():
        future.result(60)


def make_groups(members: Members, prefix: str) -> None:
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient as Confluent

    def name(what: str) -> str:
        return f"{prefix}-{what}"

    first = members.join(name("stable"), [name("many"), name("one")], "reader-1")
    second = members.join(name("stable"), [name("many"), name("one")], "reader-2")
    members.join(name("static"), [name("one")], "reader", group_instance_id="instance-1", partition_assignment_strategy="roundrobin")
    members.join(name("idle"), [name("one")], "reader-1")
    members.join(name("idle"), [name("one")], "reader-2")
    leaving = members.join(name("empty"), [name("many"), name("other")], "reader")
    nothing = members.join(name("nothing"), [name("one")], "reader")
    wait_until(lambda: len(leaving.assignment()) == 5 and len(nothing.assignment()) == 1, "members that will leave", seconds=20)
    committed = [("many", 0, 3), ("many", 1, 20), ("many", 2, 10), ("other", 1, 4)]
    leaving.commit(offsets=[Place(name(topic), number, offset) for topic, number, offset in committed], asynchronous=False)
    members.leave(leaving)
    members.leave(nothing)
    make_connect_group(members.servers, name("connect"))
    confluent = Confluent({"bootstrap.servers": members.servers, "log_level": 0})
    with AdminClient(members.servers) as admin:
        one, doomed = TopicPartition(name("one"), 0), TopicPartition(name("doomed"), 0)
        offsets = {"simple": {one: 11}, "gone": {one: 2, doomed: 3}, "onlygone": {doomed: 3}, "dead": {one: 1}}
        for group, plan in offsets.items():
            admin.commit(name(group), plan)
        admin.delete_groups([name("dead")])
        confluent.delete_topics([name("doomed")])[name("doomed")].result(60)
        wait_until(lambda: not admin.committed([name("onlygone")])[name("onlygone")], "offsets of a deleted topic to go", seconds=20)
        wait_until(lambda: (len(first.assignment()), len(second.assignment())) == (3, 1), "the stable group", seconds=20)
        sizes = {name("stable"): 2, name("static"): 1, name("idle"): 2}

        def are_stable() -> bool:
            found = [each for each in admin.describe_groups(sizes).values() if isinstance(each, DescribedGroup) and each.state == "Stable"]
            return {each.group_id: len(each.members) for each in found} == sizes

        wait_until(are_stable, "stable groups", seconds=20)
    for consumer in (first, second):
        places = [Place(each.topic, each.partition, 7 + each.partition) for each in consumer.assignment() if each.partition != 1]
        consumer.commit(offsets=places, asynchronous=False)


def make_connect_group(servers: str, group: str) -> None:
    """A group of another kind than consumers; its member stays, without a word, for the five minutes of its session."""
    with RawClient(servers) as client:
        protocols = [{"name": "sessioned", "metadata": b"x"}]
        asked = {"group_id": group, "session_timeout": 300_000, "rebalance_timeout": 300_000, "member_id": "", "protocol_type": "connect"}
        joined = client.call(ApiKey.JOIN_GROUP, 3, **asked, protocols=protocols)
        plan = [{"member_id": joined.member_id, "assignment": b"y"}]
        place = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        assert client.call(ApiKey.SYNC_GROUP, 2, **place, assignments=plan).error_code == ErrorCode.NONE


def make_modern(members: Members, prefix: str) -> None:
    """A KIP-848 group, where the broker has such."""
    from confluent_kafka import TopicPartition as Place

    member = members.join(f"{prefix}-modern", [f"{prefix}-many"], "reader", group_protocol="consumer")
    wait_until(lambda: len(member.assignment()) == 3, "the modern group", seconds=20)
    member.commit(offsets=[Place(f"{prefix}-many", 0, 7)], asynchronous=False)


@pytest.fixture(scope="module")
def prefixes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The beginning of all names of each tool's topics and groups, equally long; plans for --from-file lie in their directory."""
    number = time.time_ns() // 1000 % 1_000_000
    return {tool: f"{letter}{number:06}" for tool, letter in PREFIXES.items()}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory, prefixes: Mapping[str, str]) -> Path:
    directory = tmp_path_factory.mktemp("plans")
    for prefix in prefixes.values():
        (directory / f"{prefix}-one.csv").write_text(f'{prefix}-many,0,2\n"{prefix}-many",1,100\n{prefix}-many,2,1\n')
        (directory / f"{prefix}-two.csv").write_text(f"{prefix}-empty,{prefix}-many,0,2\n{prefix}-simple,{prefix}-one,0,4\n")
    return directory


@pytest.fixture(scope="module")
def prepared(reference: Any, prefixes: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Both brokers' addresses, with two equal sets of topics and groups on each.

    They are this test's own: Kafka's tool gives up on all groups where one of them has an assignment that it cannot read.
    """
    ours = Broker().start()
    servers = {"apache-kafka": reference.own({}).bootstrap_servers, "ottla": ours.bootstrap_servers}
    members = {kind: Members(address) for kind, address in servers.items()}
    try:
        with ThreadPoolExecutor(4) as pool:
            places = [(kind, prefix) for kind in servers for prefix in prefixes.values()]
            list(pool.map(lambda place: make_topics(servers[place[0]], place[1]), places))
            list(pool.map(lambda place: make_groups(members[place[0]], place[1]), places))
            list(pool.map(lambda place: make_modern(members[place[0]], place[1]), places))
        yield servers
    finally:
        for each in members.values():
            each.close()
        reference.end_own()
        ours.stop()


def command_lines(text: str, prefix: str, plans: Path, servers: str) -> list[list[str]]:
    lines = [line.replace("P-", f"{prefix}-").replace("DIR", str(plans)).split(" ") for line in text.split("\n") if line]
    return [line + ["--bootstrap-server", servers] * ("--validate-regex" not in line) for line in lines]


@pytest.fixture(scope="module")
def their_tools(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, KafkaTools]]:
    """Apache Kafka's tool, one for each broker, so that they can work at the same time."""
    log4j = tmp_path_factory.mktemp("tool") / "log4j2.yaml"
    log4j.write_text(LOG4J_YAML)
    options = [f"-Dlog4j2.configurationFile={log4j}", "-Duser.timezone=UTC"]
    tools = {kind: KafkaTools(reference.java_command(*options, str(JAVA_PROGRAM))) for kind in ("apache-kafka", "ottla")}
    yield tools
    for tool in tools.values():
        tool.close()


def run_ours(lines: list[list[str]]) -> list[Printed]:
    runner = CliRunner()
    results = [runner.invoke(main, ["groups", *line]) for line in lines]
    return [Printed(result.exit_code, result.stdout, result.stderr) for result in results]


TRACE = re.compile(r"\t+(at|\.\.\.) |Caused by: |(Exception in .*|[a-z]+(\.\w+)*\.\w*(Exception|Error)\b.*)$| at \[Source")
MASKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<an id of 36 characters>"),
    (r"(?<= )[\w/+-]{22}(?= )", "<an id of 22>"),
    (r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (WARN New offset.*) \([\w.]+\)$", r"[time] \1 (logger)"),
    (r"java\.util\.concurrent\.ExecutionException: ", ""),
    (r"^(Invalid (?:state|types) list .* are:) (.*)$", lambda found: f"{found[1]} {sorted(found[2].split(', '))}"),
    (r"^(Option .* takes .* options: )(.*)$", lambda found: f"{found[1]} {sorted(found[2].split(', '))}"),
    (r"^Error: No such option.*$", "an option that is none"),
    # How far it had come when no time was left depends on the machine.
    (r"Timed out waiting (?:for a node assignment|to send the call)", "Timed out"),
    (r"^((?:Deletion of requested|These consumer) .*?)('.*')", lambda found: f"{found[1]} {sorted(found[2].split(', '))}"),
)


def comparable(printed: Printed, line: Sequence[str], prefix: str) -> Printed:
    """What is compared: without other tests' groups, ids and times, stack traces and help texts."""
    out, err = printed.out.replace(prefix, "PREFIX"), printed.err.replace(prefix, "PREFIX")
    if "UnrecognizedOptionException" in err:
        err = "an option that is none"
    unavailable = re.search(r"Option\(s\) \[.*\] are unavailable.*", err)
    err_lines = [unavailable[0]] if unavailable else err.split("\n")
    if any(each.startswith("Option   ") for each in err_lines):
        err_lines = err_lines[: next(at for at, each in enumerate(err_lines) if each.startswith("Option   "))]
    err_lines = [each for each in err_lines if not TRACE.match(each) and not each.startswith(("Try '", "Usage: "))]
    err_lines = [each for each in err_lines if "[AdminClient" not in each]
    out_lines = out.split("\n")
    if "--list" in line or "--all-groups" in line:
        # How wide a column is depends on other tests' groups, too.
        out_lines = [re.sub(" +", " ", each) for each in out_lines if "PREFIX" in each or each.startswith("Error")]
        err_lines = [each for each in err_lines if "PREFIX" in each or not each.startswith("Consumer group ")]
    if "--describe" not in line or "--members" in line:
        out_lines = sorted(out_lines)
    for pattern, mask in MASKS:
        out_lines, err_lines = ([re.sub(pattern, mask, each) for each in lines] for lines in (out_lines, err_lines))
    return Printed(printed.status, "\n".join(out_lines), "\n".join(sorted(each for each in err_lines if each)))


@pytest.fixture
def same_output(
    their_tools: Mapping[str, KafkaTools], prepared: Mapping[str, str], prefixes: Mapping[str, str], plans: Path
) -> Callable[..., None]:
    """Runs both tools with the command lines of a text on the brokers named, and compares what they print."""

    def compare(text: str, kinds: Sequence[str] = ("apache-kafka", "ottla")) -> None:
        def asked(kind: str, tool: str) -> list[list[str]]:
            return command_lines(text, prefixes[tool], plans, prepared[kind])

        with ThreadPoolExecutor(2) as pool:
            theirs = dict(zip(kinds, pool.map(lambda kind: [their_tools[kind].run(TOOL, *each) for each in asked(kind, "theirs")], kinds)))
        found = []
        for kind in kinds:
            lines = asked(kind, "ours")
            for line, our, their in zip(lines, run_ours(lines), theirs[kind], strict=True):
                left, right = comparable(our, line, prefixes["ours"]), comparable(their, line, prefixes["theirs"])
                if left != right:
                    found.append(f"{kind}: {' '.join(line)}\nours:   {left}\ntheirs: {right}\n")
        assert not found, "\n".join(found)

    return compare


def test_listing_and_describing(same_output: Callable[..., None]) -> None:
    same_output(LOOK)


def test_mistakes_on_the_command_line(same_output: Callable[..., None]) -> None:
    same_output(MISTAKES)


@pytest.mark.conformance(
    "ListConsumerGroupTest.testListConsumerGroupsWithTypesConsumerProtocol", "ListConsumerGroupTest.testListGroupCommandConsumerProtocol"
)
def test_groups_of_the_new_protocol(same_output: Callable[..., None]) -> None:
    same_output(MODERN)


def test_resetting(same_output: Callable[..., None]) -> None:
    same_output(RESET)


def test_deleting(same_output: Callable[..., None]) -> None:
    same_output(DELETE)
