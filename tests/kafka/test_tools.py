"""Apache Kafka's own command-line tools on what is ours: they read our files, our offsets topic and our groups."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.cli.processes import OttlaProcess

pytestmark = pytest.mark.kafka

RECORDS = 600
DUMP = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaProcess]:
    """Our broker with RECORDS records in several segments, and a group that has read them and committed."""
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    with OttlaProcess(tmp_path_factory.mktemp("tools") / "data") as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        topic = NewTopic("flights", 1, 1, config={"segment.bytes": "1048576", "index.interval.bytes": "1000"})
        admin = AdminClient(servers)
        admin.create_topics([topic])["flights"].result(60)
        producer = Producer(servers | {"compression.type": "lz4", "batch.num.messages": 10, "linger.ms": 1})
        for number in range(RECORDS):
            producer.produce(
                "flights", b"%d " % number + os.urandom(1500).hex().encode(), key=b"N%d" % number, timestamp=1_000_000 + number
            )
        assert producer.flush(60) == 0
        consumer = Consumer(servers | {"group.id": "test-group", "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe(["flights"])
        assert len(consumer.consume(RECORDS, 10)) == RECORDS
        consumer.commit(offsets=[TopicPartition("flights", 0, 250, "read so far")], asynchronous=False)
        yield broker
        consumer.close()


def segments(broker: OttlaProcess, partition: str) -> list[Path]:
    return sorted((broker.data_dir / partition).glob("*.log"))


def test_dump_log_segments_reads_our_records(broker: OttlaProcess, run_tool: Callable[..., str]) -> None:
    files = segments(broker, "flights-0")
    assert len(files) > 1
    printed = run_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, files)))
    assert "isvalid: false" not in printed
    assert printed.count("isvalid: true") >= RECORDS / 10
    records = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .* key: (\S+) payload: (\d+) ", printed)
    assert records == [(str(n), str(1_000_000 + n), f"N{n}", str(n)) for n in range(RECORDS)]


def test_dump_log_segments_finds_our_indexes_sound(broker: OttlaProcess, run_tool: Callable[..., str]) -> None:
    first = segments(broker, "flights-0")[0]
    index, time_index = first.with_suffix(".index"), first.with_suffix(".timeindex")
    printed = run_tool(DUMP, "--verify-index-only", "--files", f"{index},{time_index}")
    assert "Mismatches" not in printed
    assert "not a multiple" not in printed
    assert "entries found" not in printed, printed
    entries = run_tool(DUMP, "--files", str(index))
    assert len(re.findall(r"offset: \d+ position: \d+", entries)) > 3


def test_dump_log_segments_decodes_our_offsets_topic(broker: OttlaProcess, run_tool: Callable[..., str]) -> None:
    (log,) = segments(broker, "__consumer_offsets-12")
    printed = run_tool(DUMP, "--offsets-decoder", "--files", str(log))
    assert "isvalid: false" not in printed
    found = re.findall(r"key: (\{.*?\}) payload: (\{.*\})$", printed, re.MULTILINE)
    commits = [json.loads(payload)["data"] for key, payload in found if json.loads(key)["type"] == "1"]
    # librdkafka sends the zero byte that ends its string, too
    assert [(commit["offset"], commit["metadata"].rstrip("\0")) for commit in commits] == [(250, "read so far")]
    groups = [json.loads(payload)["data"] for key, payload in found if json.loads(key)["type"] == "2"]
    assert groups[-1]["protocolType"] == "consumer"
    assert len(groups[-1]["members"]) == 1


def test_the_console_consumer_formats_our_offsets_topic(broker: OttlaProcess, run_tool: Callable[..., str]) -> None:
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "__consumer_offsets", "--partition", "12"),
        *("--offset", "earliest", "--timeout-ms", "2000", "--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    commit, _ = json.JSONDecoder().raw_decode(printed)
    assert commit["key"]["data"] == {"group": "test-group", "topic": "flights", "partition": 0}
    assert commit["value"]["data"]["offset"] == 250


def test_the_consumer_groups_tool_shows_the_lag_of_our_group(broker: OttlaProcess, run_tool: Callable[..., str]) -> None:
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    printed = run_tool(command, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "test-group")
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("test-group")]
    assert line[:6] == ["test-group", "flights", "0", "250", str(RECORDS), str(RECORDS - 250)]
    assert line[7] == "/127.0.0.1"
    state = run_tool(command, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "test-group", "--state")
    assert re.search(r"test-group\s+127\.0\.0\.1:\d+\s+\(1\)\s+range\s+Stable\s+1\b", state), state
