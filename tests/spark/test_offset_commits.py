"""Commits and generations of an offsets topic that real clients filled, against what Apache Kafka's own dump tool prints of its files."""

import asyncio
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.cli.processes import OttlaProcess
from ottla.client.admin.client import AdminClient
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.spark.pipelines import group_generations, offset_commits
from ottla.spark.runner.pipeline_run import run
from ottla.spark.schemas import OFFSETS_TOPIC
from ottla.testing.raw_client import RawClient

WAIT_S = 60
PARTITIONS = 2
METADATA = "where we were: Žižkov 🚉"
LINE = re.compile(r"\| offset: (\d+) \w+Time: (\d+) .*? key: (\{.*\}) payload: (.*)")


class Place(NamedTuple):
    """A broker whose files can be read."""

    kind: str
    servers: str
    data: Path


@pytest.fixture(params=["ottla", pytest.param("apache-kafka", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "ottla":
        with OttlaProcess(tmp_path / "data") as broker:
            yield Place("ottla", broker.bootstrap_servers, tmp_path / "data")
        return
    shared = request.getfixturevalue("reference").shared()
    yield Place("apache-kafka", shared.bootstrap_servers, shared.log_dir)


def make_topic(place: Place, topic: str) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient as Confluent
    from confluent_kafka.admin import NewTopic

    admin = Confluent({"bootstrap.servers": place.servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": place.servers, "enable.idempotence": True})
    for number in range(40):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def commit_by_confluent(place: Place, topic: str, group: str, **settings: Any) -> None:
    """Three commits, the last with metadata."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place_

    config = {"bootstrap.servers": place.servers, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**config, **settings})
    consumer.subscribe([topic])
    for _ in range(2):
        assert consumer.consume(5, WAIT_S)
        consumer.commit(asynchronous=False)
    consumer.commit(offsets=[Place_(topic, 1, 7, metadata=METADATA, leader_epoch=0)], asynchronous=False)
    consumer.close()


def commit_by_kafka_python(place: Place, topic: str, group: str) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=place.servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    # In one poll: kafka-python 3.0 forgets what it was assigned when a poll ends in the midst of its joining.
    assert consumer.poll(WAIT_S * 1_000, max_records=3)
    consumer.commit()
    consumer.close()


def commit_by_aiokafka(place: Place, topic: str, group: str) -> None:
    from aiokafka import AIOKafkaConsumer

    async def work() -> None:
        options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=place.servers, **options)
        await consumer.start()
        await consumer.getone()
        await consumer.commit()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(work(), WAIT_S))


def join_a_share_group(place: Place, topic: str, group: str) -> None:
    """By one heartbeat, which writes the group's first records."""
    with RawClient(place.servers) as client:
        values = {"group_id": group, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "member_epoch": 0, "subscribed_topic_names": [topic]}
        answer = client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **values)
        assert answer.error_code == ErrorCode.NONE, answer


def fill(place: Place, topic: str, group: Callable[[str], str]) -> None:
    """Commits of four kinds of clients, a group deleted, an offset deleted, a static member; on Apache Kafka KIP-848 and share groups."""
    make_topic(place, topic)
    commit_by_confluent(place, topic, group("confluent"))
    commit_by_confluent(place, topic, group("static"), **{"group.instance.id": "one", "session.timeout.ms": 6_000})
    commit_by_kafka_python(place, topic, group("kafka-python"))
    commit_by_aiokafka(place, topic, group("aiokafka"))
    if place.kind == "apache-kafka":
        commit_by_confluent(place, topic, group("modern"), **{"group.protocol": "consumer"})
        join_a_share_group(place, topic, group("share"))
    with AdminClient(place.servers) as admin:
        assert admin.delete_groups([group("aiokafka")]) == {group("aiokafka"): None}
        first = TopicPartition(topic, 1)
        assert admin.delete_offsets(group("confluent"), [first]) == {first: None}
        admin.commit(group("by-hand"), {TopicPartition(topic, 0): 3})


class Dumped(NamedTuple):
    """A record as the tool prints it; `value` None is a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: dict[str, Any]
    value: dict[str, Any] | None

    @property
    def record_type(self) -> int:
        return int(self.key["type"])


def dump(reference: Any, place: Place) -> list[Dumped]:
    files = [path for path in sorted(place.data.glob(f"{OFFSETS_TOPIC}-*/*.log")) if path.stat().st_size]
    utf8 = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    tool = ("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, files)))
    printed = subprocess.run(
        reference.java_command("-Xmx256m", *utf8, *tool), capture_output=True, encoding="utf-8", timeout=60, check=True
    ).stdout
    found, partition = [], -1
    for line in printed.splitlines():
        if line.startswith("Dumping "):
            partition = int(Path(line.split()[1]).parent.name.rpartition("-")[2])
        elif match := LINE.match(line):
            value = None if match[4] == "<DELETE>" else json.loads(match[4])
            found.append(Dumped(partition, int(match[1]), int(match[2]), json.loads(match[3]), value))
    return sorted(found, key=lambda record: (record.partition, record.offset))


def of_commit(record: Dumped) -> dict[str, Any]:
    """The row that a dumped commit should give, with times in milliseconds."""
    key, value = record.key["data"], (record.value or {"data": {}})["data"]
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "group": key["group"],
        "topic": key["topic"],
        "topic_partition": key["partition"],
        "is_tombstone": record.value is None,
        "committed_offset": value.get("offset"),
        "leader_epoch": value.get("leaderEpoch"),
        "metadata": value.get("metadata"),
        "commit_timestamp": value.get("commitTimestamp"),
        "expire_timestamp": value.get("expireTimestamp"),
        "topic_id": value.get("topicId"),
        "record_type": record.record_type,
        "value_version": None if record.value is None else int(record.value["version"]),
    }


def of_generation(record: Dumped) -> dict[str, Any]:
    """The columns that come from the record itself."""
    value = (record.value or {"data": {}})["data"]
    members = None if record.value is None else [of_member(member) for member in value["members"]]
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "group": record.key["data"]["group"],
        "is_tombstone": record.value is None,
        "generation": value.get("generation"),
        "protocol_type": value.get("protocolType"),
        "protocol": value.get("protocol"),
        "leader": value.get("leader"),
        "state_timestamp": value.get("currentStateTimestamp"),
        "members": members,
        "value_version": None if record.value is None else int(record.value["version"]),
    }


def of_member(member: dict[str, Any]) -> dict[str, Any]:
    # Members that are no consumers (Connect's workers) have bytes of their own there, which the tool shows in base64.
    is_consumer = not isinstance(member["subscription"], str)
    return {
        "member_id": member["memberId"],
        "group_instance_id": member["groupInstanceId"],
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "rebalance_timeout": member["rebalanceTimeout"],
        "session_timeout": member["sessionTimeout"],
        "subscribed_topics": member["subscription"]["topics"] if is_consumer else None,
        "owned_partitions": {each["topic"]: each["partitions"] for each in member["subscription"].get("ownedPartitions") or ()}
        if is_consumer
        else None,
        "assignment": {each["topic"]: each["partitions"] for each in member["assignment"]["assignedPartitions"]} if is_consumer else None,
    }


def rows(frame: Any) -> list[dict[str, Any]]:
    """Rows with times in milliseconds, in the order of their places."""
    found = [row.asDict(recursive=True) for row in frame.collect()]
    for row in found:
        for name, value in row.items():
            if isinstance(value, datetime):
                row[name] = round(value.astimezone(UTC).timestamp() * 1000)
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_commits_and_generations_are_what_kafka_s_dump_tool_prints(spark: Any, place: Place, reference: Any) -> None:
    stamp = f"{time.time_ns()}"
    fill(place, f"topic-{stamp}", lambda name: f"{name}-{stamp}")
    options = {"kafka.bootstrap.servers": place.servers, "subscribe": OFFSETS_TOPIC, "decode": "group_records"}
    records = spark.read.format("ottla").options(**options).load().cache()
    commits = run(offset_commits.PIPELINE, {"group_records": records})
    groups = run(group_generations.PIPELINE, {"group_records": records})
    counts: Counter[tuple[int, bool]] = Counter()
    ends: Counter[int] = Counter()
    for row in commits["group_record_counts"].collect():
        assert row["is_known"]
        counts[row["record_type"], row["is_tombstone"]] += row["records"]
        ends[row["partition"]] = max(ends[row["partition"]], row["last_offset"] + 1)

    # What was written after the query was planned (groups of other tests may expire) is not compared.
    dumped = [record for record in dump(reference, place) if record.offset < ends[record.partition]]
    assert counts == Counter((record.record_type, record.value is None) for record in dumped)
    expected = [of_commit(record) for record in dumped if record.record_type in (0, 1)]
    assert len([row for row in expected if stamp in row["group"]]) >= 14
    assert rows(commits["offset_commits"]) == expected
    assert any(METADATA in (row["metadata"] or "") for row in expected)  # confluent-kafka commits a null character behind it
    assert {stamp in row["group"] for row in expected if row["is_tombstone"]} >= {True}

    generations = rows(groups["group_generations"])
    wanted = [of_generation(record) for record in dumped if record.record_type == 2]
    assert [{name: row[name] for name in wanted[0]} for row in generations] == wanted
    mine = [row for row in generations if row["group"] == f"static-{stamp}"]
    assert {name for row in mine for name in row["changes"]} <= {"FIRST", "MEMBERS_JOINED", "MEMBERS_LEFT", "EMPTIED", "UNCHANGED"}
    assert any(row["is_tombstone"] and row["changes"] == ["DELETED"] for row in generations)
    epochs = {(row["partition"], row["offset"]): row for row in rows(groups["group_epochs"])}
    named = [record for record in dumped if record.record_type in group_generations.EPOCH_FIELDS]
    assert set(epochs) == {(record.partition, record.offset) for record in named}
    for record in named:
        value = (record.value or {"data": {}})["data"]
        row = epochs[record.partition, record.offset]
        assert row["epoch"] == value.get(group_generations.EPOCH_FIELDS[record.record_type])
        assert (row["group"], row["member_id"]) == (record.key["data"]["groupId"], record.key["data"].get("memberId"))
    assert {record.record_type for record in named} >= ({3, 6, 8, 11} if place.kind == "apache-kafka" else set())
    records.unpersist()
