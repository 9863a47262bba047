"""A topic into one with another number of partitions, on Ottla and on Apache Kafka: nothing lost, doubled or out of order."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka.partitioner.default import murmur2

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.cli.processes import QUICK_START_OPTIONS, find_java_home
from ottla.client.admin.client import AdminClient as OttlaAdmin
from ottla.client.admin.values import LATEST, Failure
from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition as Partition
from ottla.spark.migration.job import Migrated, MigrationRun
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.topics import connect, extents, find_source, open_transactions
from ottla.spark.migration.values import SOURCE_HEADER, Cluster, Migration, MigrationError, Progress
from ottla.spark.sink.producer_settings import parse_producer_settings
from ottla.testing.waiting import wait_until
from tests.support.kit.waiting import rest
from tests.support.reference.class_archives import archive_options, spark_archive

CHECKOUT = Path(__file__).parents[2]
RECORDS, WIDE, NARROW = 600, 8, 3


def cluster(servers: str) -> Cluster:
    return Cluster(
        client=ClientSettings(bootstrap_servers=servers), producer=parse_producer_settings({"bootstrap.servers": servers, "linger.ms": "5"})
    )


def migration(servers: str, source: str, target: str, **more: Any) -> Migration:
    here = cluster(servers)
    plain = {"source_cluster": here, "target_cluster": here, "source": source, "target": target, "partitions": NARROW}
    return Migration(**plain | more)


def make(servers: str, name: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(20)
    return name


def settings_of(servers: str, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers})  # it must outlive its request
    described = admin.describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in described.items()}


def read(servers: str, topic: str, partitions: int) -> list[Any]:
    """All committed messages of a topic, partition by partition, by offset."""
    settings = {"group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    messages: list[Any] = []
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end.add(message.partition())
        else:
            messages.append(message)
    consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> str:
    with OttlaAdmin(servers) as admin:  # it tries again while a broker's coordinator is just loading
        results = admin.commit(group, {Partition(topic, number): offset for number, offset in offsets.items()})
    assert not isinstance(results, Failure)
    assert not any(results.values())
    return group


def committed(servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=20)
    consumer.close()
    return {each.partition: each.offset for each in found}


def number(message: Any) -> int:
    return int(dict(message.headers())["number"])


def origin(message: Any) -> tuple[int, int]:
    """Partition and offset in the source, by the last header."""
    name, value = message.headers()[-1]
    assert name == SOURCE_HEADER
    _, partition, offset = value.decode().rsplit(":", 2)
    return int(partition), int(offset)


def fill(servers: str, topic: str, *, records: int = RECORDS, first: int = 0, partitions: int = WIDE, **settings: Any) -> None:
    """Records with and without keys, tombstones, and times that run backwards now and then."""
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random", **settings})
    rng = random.Random(first)
    began_ms = int(time.time() * 1000) - 60_000  # records of long ago would be retention's, if Spark took its time
    for each in range(first, first + records):
        key = None if each % 10 == 0 else b"key-%d" % rng.randrange(60)
        where = {"partition": rng.randrange(partitions)} if key is None else {}
        value = None if each % 50 == 1 else b"%d" % each
        producer.produce(topic, value, key, timestamp=began_ms + each - rng.randrange(20), headers=[("number", b"%d" % each)], **where)
    assert producer.flush(60) == 0


@pytest.fixture
def our_servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def ends_of(messages: list[Any]) -> dict[int, int]:
    ends = dict.fromkeys(range(WIDE), 0)
    return ends | {message.partition(): message.offset() + 1 for message in messages}


def check_copy(source: list[Any], target: list[Any], *, times_kept: bool = True) -> None:
    """The same records, each once; each source partition's in their order, so each key's, too."""
    twins = {origin(message): message for message in target}
    assert len(twins) == len(target) == len(source)
    for message in source:
        twin = twins[message.partition(), message.offset()]
        assert (twin.key(), twin.value(), twin.headers()[:-1]) == (message.key(), message.value(), message.headers() or [])
        if times_kept:
            assert twin.timestamp()[1] == message.timestamp()[1]
    offsets = defaultdict(list)
    for message in target:
        partition, offset = origin(message)
        offsets[message.partition(), partition].append(offset)
    assert all(each == sorted(each) for each in offsets.values())


def check_groups(target: list[Any], positions: Mapping[str, Mapping[int, int]], migrated: Migrated) -> None:
    """No group misses a record, each continues at one that it has not read, and reads again as many as was said."""
    for group, offsets in positions.items():
        carried = migrated.groups[group]
        replayed = 0
        for place in range(NARROW):
            mine = [message for message in target if message.partition() == place]
            unread = [message for message in mine if origin(message)[1] >= offsets.get(origin(message)[0], 0)]
            assert carried.offsets[place] == (unread[0].offset() if unread else (mine[-1].offset() + 1 if mine else 0))
            replayed += sum(message.offset() >= carried.offsets[place] for message in mine) - len(unread)
        assert carried.replayed == replayed


def shares(ends: Mapping[int, int], share: float) -> dict[int, int]:
    return {partition: int(end * share) for partition, end in ends.items()}


def test_records_and_groups_come_over(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    partitioner = {"ottla": "crc32", "apache-kafka": "murmur2"}[kafka_broker.kind]
    servers, wide, narrow = kafka_broker.bootstrap_servers, unique_name("wide"), unique_name("narrow")
    make(servers, wide, WIDE, {"max.message.bytes": "123456"})
    fill(servers, wide)
    source = read(servers, wide, WIDE)
    ends = ends_of(source)
    # Three that are one behind the other, and one across them.
    positions = {
        unique_name("done"): ends,
        unique_name("half"): shares(ends, 0.5),
        unique_name("begun"): shares(ends, 0.1),
        unique_name("one"): {2: ends[2]},
    }
    for group, offsets in positions.items():
        commit(servers, group, wide, offsets)
    planned = migration(servers, wide, narrow, partitioner=partitioner, records_max=250)
    forecast = MigrationRun(spark, replace(planned, records_max=RECORDS)).forecast()
    migrated = MigrationRun(spark, planned).copy()
    assert forecast == migrated
    target = read(servers, narrow, NARROW)
    assert migrated.records == RECORDS
    check_copy(source, target)
    check_groups(target, positions, migrated)
    assert {group: committed(servers, group, narrow, NARROW) for group in positions} == {
        group: dict(carried.offsets) for group, carried in migrated.groups.items()
    }
    for message in target:
        if message.key() is None:
            assert message.partition() == origin(message)[0] % NARROW
        else:
            hashed = murmur2(message.key()) & 0x7FFFFFFF if partitioner == "murmur2" else crc32(message.key())
            assert message.partition() == hashed % NARROW
    assert settings_of(servers, narrow)["max.message.bytes"] == "123456"
    assert settings_of(servers, narrow)["retention.ms"] == settings_of(servers, wide)["retention.ms"]


def test_groups_one_behind_the_other_read_nothing_again(spark: Any, our_servers: str, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = our_servers, unique_name("wide"), unique_name("narrow")
    fill(servers, make(servers, wide, WIDE))
    ends = ends_of(read(servers, wide, WIDE))
    names = [commit(servers, unique_name("group"), wide, shares(ends, share)) for share in (0.2, 0.5, 0.9)]
    migrated = MigrationRun(spark, migration(servers, wide, narrow, groups=tuple(names), records_max=250)).copy()
    assert {group: carried.replayed for group, carried in migrated.groups.items()} == dict.fromkeys(names, 0)
    read_offsets = [sum(committed(servers, name, narrow, NARROW).values()) for name in names]
    assert read_offsets == [sum(shares(ends, share).values()) for share in (0.2, 0.5, 0.9)]


class Interrupted(Exception):
    """The driver ends here."""


def test_a_run_that_was_interrupted_continues(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = kafka_broker.bootstrap_servers, unique_name("wide"), unique_name("narrow")
    fill(servers, make(servers, wide, WIDE))
    source = read(servers, wide, WIDE)
    ends = ends_of(source)
    # One across the other: what is read again depends on the order of all records.
    positions = {unique_name("group"): shares(ends, 0.3), unique_name("one"): {2: ends[2]}}
    for group, offsets in positions.items():
        commit(servers, group, wide, offsets)
    planned = migration(servers, wide, narrow, groups=tuple(positions), records_max=200)
    stated = MigrationRun(spark, planned).forecast()

    def interrupt(progress: Progress) -> None:
        if progress.done:
            with pytest.raises(MigrationError, match=f"^another ottla migrate .* writes into {narrow}: wait until it has ended"):
                MigrationRun(spark, planned).copy()
            raise Interrupted

    with pytest.raises(Interrupted):
        MigrationRun(spark, planned, report=interrupt).copy()
    copied = len(read(servers, narrow, NARROW))
    assert 0 < copied < RECORDS
    forecast = MigrationRun(spark, planned).forecast()
    migrated = MigrationRun(spark, planned, pause=lambda _s: None, clock=Clock()).copy()
    assert forecast == migrated == replace(stated, records=RECORDS - copied)
    target = read(servers, narrow, NARROW)
    check_copy(source, target)
    check_groups(target, positions, migrated)
    assert MigrationRun(spark, planned, pause=lambda _s: None, clock=Clock()).copy().records == 0


@pytest.mark.kafka
def test_a_topic_goes_to_another_cluster(spark: Any, reference: Any, unique_name: Callable[[str], str]) -> None:
    topic, group = unique_name("topic"), unique_name("group")
    there = reference.shared().bootstrap_servers
    with Broker() as broker:
        here = broker.bootstrap_servers
        fill(here, make(here, topic, WIDE, {"retention.ms": "86400000"}), records=100)
        source = read(here, topic, WIDE)
        position = shares(ends_of(source), 0.5)
        commit(here, group, topic, position)
        migrated = MigrationRun(spark, migration(here, topic, topic, target_cluster=cluster(there), groups=(group,))).copy()
        target = read(there, topic, NARROW)
        check_copy(source, target)
        check_groups(target, {group: position}, migrated)
        assert committed(there, group, topic, NARROW) == dict(migrated.groups[group].offsets)
        assert settings_of(there, topic)["retention.ms"] == "86400000"


def test_a_live_topic_is_followed_until_all_have_stopped(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = kafka_broker.bootstrap_servers, unique_name("wide"), unique_name("narrow")
    fill(servers, make(servers, wide, WIDE), records=200)
    group = unique_name("group")
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([wide])
    for _ in range(50):
        message = consumer.poll(20)
        assert message is not None
        assert not message.error()
    consumer.commit(asynchronous=False)
    waits: list[str] = []

    def produce_and_stop(progress: Progress) -> None:
        """Once all is copied: more records, then the member leaves."""
        if progress.waits_for and not waits:
            fill(servers, wide, records=100, first=200)
        if progress.waits_for and len(waits) == 1:
            assert consumer.poll(20) is not None
            consumer.commit(asynchronous=False)
            consumer.close()
        waits.extend([progress.waits_for] if progress.waits_for else [])

    migrated = MigrationRun(spark, migration(servers, wide, narrow, groups=(group,)), report=produce_and_stop).follow(0.5)
    assert waits[0] == f"the members of {group} to stop"
    target = read(servers, narrow, NARROW)
    check_copy(read(servers, wide, WIDE), target)
    position = {number: offset for number, offset in committed(servers, group, wide, WIDE).items() if offset >= 0}
    assert sum(position.values()) == 51
    check_groups(target, {group: position}, migrated)


class Clock:
    """Seconds that pass by themselves: the ends of the target stand still for long."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.mark.usefixtures("quick_workers")
def test_a_killed_command_continues(spark: Any, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    wide, narrow = unique_name("wide"), unique_name("narrow")
    with Broker() as broker:
        servers = broker.bootstrap_servers
        fill(servers, make(servers, wide, WIDE), records=8_000)
        make(servers, narrow, NARROW)
        options = ["--no-groups", "--cores", "1", "--max-records-per-batch", "400"]
        command = [sys.executable, "-m", "ottla", "migrate", wide, narrow, "--bootstrap-server", servers, *options]
        options_of_java = " ".join((*QUICK_START_OPTIONS, *archive_options(spark_archive(CHECKOUT / ".cache"))))
        environment = {**os.environ, "JAVA_HOME": str(find_java_home()), "SPARK_SUBMIT_OPTS": options_of_java}
        with (
            open(tmp_path / "stderr", "w") as stderr,
            subprocess.Popen(command, env=environment, start_new_session=True, stderr=stderr) as process,
        ):
            wait_until(
                lambda: records_in(servers, narrow) or process.poll() is not None, "the first records in the target", rest, seconds=240
            )
            os.killpg(process.pid, signal.SIGKILL)
        assert records_in(servers, narrow) < 8_000
        steps = "Spark starts", f"planning, what {narrow} has is read", *(f"{share} % of 8000 offsets" for share in range(0, 100, 10))
        said = (tmp_path / "stderr").read_text().splitlines()
        assert len(said) >= 3
        assert said == [f"migrating {wide} to {narrow}: {step}" for step in steps][: len(said)]
        MigrationRun(spark, migration(servers, wide, narrow, groups=())).copy()
        check_copy(read(servers, wide, WIDE), read(servers, narrow, NARROW))


def records_in(servers: str, topic: str) -> int:
    with OttlaAdmin(servers) as admin:
        return sum(admin.list_offsets([Partition(topic, number) for number in range(NARROW)], LATEST).values())


def test_a_compacted_topic_of_log_append_time(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = kafka_broker.bootstrap_servers, unique_name("wide"), unique_name("narrow")
    config = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "retention.ms": "86400000"}
    make(servers, wide, WIDE, config)
    keyed = Producer({"bootstrap.servers": servers})
    for each in range(100):
        keyed.produce(wide, None if each % 7 == 0 else b"%d" % each, b"key-%d" % (each % 9))
    assert keyed.flush(20) == 0
    planned = migration(servers, wide, narrow, groups=())
    seen: dict[str, str] = {}
    MigrationRun(spark, planned, report=lambda _progress: seen.update(settings_of(servers, narrow))).copy()
    assert (seen["cleanup.policy"], seen["message.timestamp.type"], seen["retention.ms"]) == ("delete", "CreateTime", "-1")
    target = read(servers, narrow, NARROW)
    check_copy(read(servers, wide, WIDE), target)
    assert {name: settings_of(servers, narrow)[name] for name in config} == config


def test_an_empty_topic_and_one_that_is_migrated_twice(spark: Any, our_servers: str) -> None:
    servers, first, second, third = our_servers, make(our_servers, "a.topic_1", 1), "a_topic.2", "3"
    empty = migration(servers, first, second, partitions=1, groups=(commit(servers, "g", first, {0: 0}),))
    assert (
        MigrationRun(spark, empty).forecast() == MigrationRun(spark, empty).copy() == Migrated(records=0, groups={"g": Carried({0: 0}, 0)})
    )
    producer = Producer({"bootstrap.servers": servers})
    for each in range(3):
        headers = [(SOURCE_HEADER, f"{topic}:0:{each + 7}".encode()) for topic in ("other", first)]
        producer.produce(first, b"%d" % each if each else None, None, headers=headers)
    assert producer.flush(60) == 0
    for source, target in ((first, second), (second, third)):
        assert MigrationRun(spark, migration(servers, source, target, partitions=1, groups=())).copy().records == 3
        check_copy(read(servers, source, 1), read(servers, target, 1))
    assert [len(message.headers()) for message in read(servers, third, 1)] == [4] * 3


def wait_for_markers(planned: Migration) -> None:
    """A transaction has ended for its producer before its markers are in the log."""
    with connect(planned) as admins:
        source = find_source(planned, admins)
        wait_until(lambda: not open_transactions(source, extents(admins.source, source), admins), "the markers of the last transaction")


@pytest.mark.kafka
def test_records_of_aborted_transactions_stay_behind(spark: Any, reference: Any, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = reference.shared().bootstrap_servers, unique_name("wide"), unique_name("narrow")
    make(servers, wide, WIDE)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique_name("transactions")})
    producer.init_transactions(20)
    for transaction in range(4):
        producer.begin_transaction()
        for each in range(30):
            producer.produce(wide, b"%d" % each, b"key-%d" % each, headers=[("number", b"%d" % (transaction * 30 + each))])
        producer.flush(20)
        if transaction % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    source = read(servers, wide, WIDE)
    ends = ends_of(source)
    group = commit(servers, unique_name("group"), wide, ends)
    planned = migration(servers, wide, narrow, groups=(group,))
    wait_for_markers(planned)
    producer.begin_transaction()
    producer.produce(wide, b"open", partition=2)
    producer.flush(20)
    with pytest.raises(MigrationError, match=f"^{wide}-2 has an open transaction, and what is behind its start was not copied"):
        MigrationRun(spark, planned).copy()
    producer.abort_transaction(20)
    wait_for_markers(planned)
    migrated = MigrationRun(spark, planned, pause=lambda _s: None, clock=Clock()).copy()
    assert (migrated.records, migrated.gone, len(source)) == (0, 0, 60)
    target = read(servers, narrow, NARROW)
    check_copy(source, target)
    check_groups(target, {group: ends}, migrated)


def test_obstacles_are_reported_before_anything_is_written(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = kafka_broker.bootstrap_servers, unique_name("wide"), unique_name("narrow")

    def refusal(**changes: Any) -> str:
        planned = replace(migration(servers, wide, narrow), **changes)
        with pytest.raises(MigrationError) as raised:
            MigrationRun(spark, planned, pause=lambda _s: None, clock=Clock()).copy()
        return str(raised.value)

    assert refusal() == f"topic {wide} does not exist"
    fill(servers, make(servers, wide, WIDE), records=20)
    busy = unique_name("busy")
    assert refusal(groups=(busy,)) == f"group {busy} has no committed offsets for {wide}: leave it out of --groups"
    assert refusal(partitions=None, groups=()) == f"topic {narrow} does not exist: say with --partitions how many partitions it gets"
    assert refusal(target=wide, partitions=None, groups=()) == f"{wide} cannot be migrated into itself: name another topic"
    consumer = Consumer({"bootstrap.servers": servers, "group.id": busy, "auto.offset.reset": "earliest", "session.timeout.ms": 6000})
    consumer.subscribe([wide])
    while consumer.poll(1) is None:
        continue
    consumer.commit(asynchronous=False)
    assert refusal(groups=(busy,)).startswith(f"group {busy} has members (it is Stable), which go on with {wide}: stop them first")
    consumer.close()
    other = make(servers, unique_name("other"), NARROW)
    fill(servers, other, records=1, first=3, partitions=NARROW)
    assert "has 3 partitions, not 4: leave out --partitions" in refusal(target=other, partitions=4, groups=())
    before = settings_of(servers, other)
    assert "that is not of this migration: name a topic that is empty or does not exist" in refusal(target=other, groups=())
    assert settings_of(servers, other) == before


@pytest.mark.usefixtures("session_of_commands")
def test_the_command_migrates_and_prints_the_groups(our_servers: str, unique_name: Callable[[str], str]) -> None:
    servers, wide, narrow = our_servers, unique_name("wide"), unique_name("narrow")
    fill(servers, make(servers, wide, WIDE), records=50)
    group = commit(servers, unique_name("mine"), wide, {0: 0})
    arguments = ["migrate", wide, narrow, "--bootstrap-server", servers, "--groups", group, "--partitions", "3"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"50 records copied from {wide} to {narrow}\ngroup {group} reads 0 records again, from 0:0, 1:0, 2:0\n"
    again = CliRunner().invoke(main, [*arguments, "--json"])
    groups = {group: {"replay": 0, "offsets": {"0": 0, "1": 0, "2": 0}}}
    assert json.loads(again.stdout) == {"source": wide, "target": narrow, "dry_run": False, "records": 0, "gone": 0, "groups": groups}
