"""Apache Kafka's tools for administrators on both brokers: they print the same. And on three brokers of ours, where something can move."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Cluster
from tests.support.reference.apache_kafka import KafkaTools, Printed

pytestmark = pytest.mark.kafka

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
}
COMMAND_LINES = """
topics --create --topic T --partitions 2 --replication-factor 1 --config retention.ms=1000
topics --describe --topic T
topics --create --topic T
topics --describe --topic T-nowhere
topics --describe --topic T.* --partition-size-limit-per-response 1
topics --alter --topic T --partitions 3
topics --describe --topic T
topics --alter --topic T --partitions 3
topics --describe --topic T --under-replicated-partitions
topics --describe --topic T --at-min-isr-partitions
topics --describe --topic T --unavailable-partitions
topics --describe --topic T --topics-with-overrides
configs --alter --entity-type topics --entity-name T --add-config segment.ms=77777,cleanup.policy=[compact,delete]
configs --describe --entity-type topics --entity-name T
configs --alter --entity-type topics --entity-name T --add-config no.such=1
configs --alter --entity-type topics --entity-name T --delete-config segment.ms,cleanup.policy
configs --describe --entity-type topics --entity-name T
configs --alter --entity-type topics --entity-name T-nowhere --add-config segment.ms=77777
configs --alter --entity-type brokers --entity-name 1 --add-config message.max.bytes=1048589
configs --describe --entity-type brokers --entity-name 1
configs --alter --entity-type brokers --entity-name 1 --delete-config message.max.bytes
configs --describe --entity-type brokers --entity-name 1
configs --describe --entity-type client-metrics
leader-election --election-type preferred --topic T --partition 0
leader-election --election-type unclean --topic T --partition 0
leader-election --election-type preferred --topic T-nowhere --partition 0
leader-election --election-type preferred --all-topic-partitions
reassign-partitions --list
reassign-partitions --generate --topics-to-move-json-file PLANS/topics --broker-list 1
reassign-partitions --execute --reassignment-json-file PLANS/same
reassign-partitions --verify --reassignment-json-file PLANS/same
reassign-partitions --cancel --reassignment-json-file PLANS/same
reassign-partitions --execute --reassignment-json-file PLANS/unknown
reassign-partitions --execute --reassignment-json-file PLANS/directory
metadata-quorum describe --status
metadata-quorum describe --replication
log-dirs --describe --topic-list T
log-dirs --describe --topic-list T-nowhere
topics --delete --topic T
topics --list --topic T
"""
READING = {"--describe", "describe", "--list", "--generate", "--verify"}
TRACE = re.compile(r"\s+(at |\.\.\. \d+ more)")
MASKS = (
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"^\[[\d :,-]+\] ", "[time] "),
    (r"\b(TopicId: |ClusterId: +)[\w-]{22}", r"\1ID"),
    (r"\"directoryId\": \"[\w-]{22}\"", '"directoryId": ID'),
    (r", \"endpoints\": \[.*?\]", ""),  # no listener of ours serves controllers
    (r"(LeaderEpoch|HighWatermark|MaxFollowerLagTimeMs): +\d+", r"\1: NUMBER"),
    (r"^(\d+)\s+[\w-]{22}\s+\d+\s+(\d+)\s+\d{13}\s+\d{13}\s+", r"\1 ID END \2 TIME TIME "),
    (r"\"(log_dirs\":\[|logDir\":)\"(?!any\")[^\"]*\"", r"\1PATH"),
)


@pytest.fixture
def run(kafka_tools: KafkaTools, tmp_path: Path) -> Callable[[str, str, str], Printed]:
    """`run(bootstrap_servers, topic, line)` runs a tool and gives what is compared of its output: no ports, ids, times, places in code."""

    def run_line(bootstrap_servers: str, topic: str, line: str) -> Printed:
        name, *words = [word.replace("PLANS", str(tmp_path)) for word in line.split()]
        arguments = [re.sub(r"^T(?=$|-nowhere|\.)", topic, word) for word in words]
        printed = kafka_tools.run(TOOLS[name], "--bootstrap-server", bootstrap_servers, *arguments)
        return Printed(printed.status, comparable(printed.out), comparable(printed.err))

    return run_line


def comparable(text: str) -> str:
    lines = [line for line in text.split("\n") if not TRACE.match(line)]
    for pattern, mask in MASKS:
        lines = [re.sub(pattern, mask, line) for line in lines]
    return "\n".join(lines)


def write_plan(path: Path, topic: str, *replicas: Sequence[int], **more: Any) -> None:
    partitions = [{"topic": topic, "partition": number, "replicas": list(each), **more} for number, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))


def settled(ask: Callable[[], Printed], expected: Printed, *, seconds: float) -> Printed:
    """What is printed once it is what is expected, or after so many seconds: Apache Kafka's brokers lag behind its controller."""
    deadline = time.monotonic() + seconds
    while (printed := ask()) != expected and time.monotonic() < deadline:
        pass
    return printed


def test_the_tools_print_the_same(
    run: Callable[[str, str, str], Printed], both: Mapping[str, str], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique_name("topic")
    (tmp_path / "topics").write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    write_plan(tmp_path / "same", topic, [1], [1])
    write_plan(tmp_path / "unknown", topic, [9])
    write_plan(tmp_path / "directory", topic, [1], log_dirs=["/nowhere"])
    for line in COMMAND_LINES.strip().splitlines():
        ours = run(both["ottla"], topic, line)
        is_reading = bool(READING & set(line.split()))
        theirs = settled(partial(run, both["apache-kafka"], topic, line), ours, seconds=60 if is_reading else 0)
        assert ours == theirs, line


def test_the_tools_move_replicas_and_leaders_between_brokers_of_ours(run: Callable[[str, str, str], Printed], tmp_path: Path) -> None:
    write_plan(tmp_path / "other", "t", [3, 2], [2, 3, 1])
    with Cluster(brokers=3) as cluster:

        def said(line: str) -> str:
            printed = run(cluster.bootstrap_servers, "t", line)
            assert printed.status == 0, printed
            return printed.out

        said("topics --create --topic T --replica-assignment 1:2,1:2")
        moved = said("reassign-partitions --execute --reassignment-json-file PLANS/other")
        assert "Successfully started partition reassignments for t-0,t-1" in moved
        completed = said("reassign-partitions --verify --reassignment-json-file PLANS/other")
        assert re.findall(r"partition t-(\d) is completed", completed) == ["0", "1"]
        described = said("topics --describe --topic T")
        assert re.findall(r"Leader: (\d)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)", described) == [("3", "3,2", "3,2"), ("1", "2,3,1", "2,3,1")]
        elected = said("leader-election --election-type preferred --all-topic-partitions")
        assert "Successfully completed leader election (PREFERRED) for partitions t-1" in elected
        assert re.findall(r"Leader: (\d)", said("topics --describe --topic T")) == ["3", "2"]
        assert re.findall(r"(\d) ID END 0 TIME TIME (\w+)", said("metadata-quorum describe --replication")) == [
            ("1", "Leader"),
            ("2", "Observer"),
            ("3", "Observer"),
        ]
