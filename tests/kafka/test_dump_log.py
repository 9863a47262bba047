"""`ottla dump-log` beside Apache Kafka's DumpLogSegments: the same lines about files that either broker wrote, sound and damaged."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.cli.processes import OttlaProcess
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

pytestmark = pytest.mark.kafka

FIRST = "00000000000000000000"
Compare = Callable[..., Result]


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["dump-log", *map(str, arguments)])


@pytest.fixture(scope="module")
def same_lines(run_tool: Callable[..., str]) -> Compare:
    """`same_lines("--print-data-log", paths)`: both tools print the same to stdout; gives what ours printed."""

    def compare(*options: str, files: list[Path]) -> Result:
        assert files
        arguments = [*options, "--files", ",".join(map(str, files))]
        theirs = run_tool("org.apache.kafka.tools.DumpLogSegments", *arguments)
        ours = dump(*arguments)
        assert ours.stdout.split("\n") == theirs.split("\n")
        return ours

    return compare


def fill(bootstrap_servers: str) -> None:
    """Topic `flights`: two segments, every codec, keys, headers, nulls, idempotent producers; topic `logtime`: append times."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    servers = {"bootstrap.servers": bootstrap_servers}
    topics = [
        NewTopic("flights", 1, 1, config={"segment.bytes": "1048576", "index.interval.bytes": "1000"}),
        NewTopic("logtime", 1, 1, config={"message.timestamp.type": "LogAppendTime"}),
    ]
    admin = AdminClient(servers)
    for created in admin.create_topics(topics).values():
        created.result(60)
    for number, codec in enumerate(Codec):
        idempotent = {"enable.idempotence": number % 2 == 0}
        settings = {"compression.type": codec.name.lower(), "batch.num.messages": 10, "linger.ms": 1}
        producer = Producer(servers | settings | idempotent)
        for each in range(120):
            value = b"%d " % each + os.urandom(2500).hex().encode() if each % 50 else None
            headers = [("first", b"x"), ("second", None)] if each % 2 else None
            key = b"N%d" % each if each % 3 else None
            producer.produce("flights", value, key=key, timestamp=1_700_000_000_000 + 1000 * number + each, headers=headers)
        producer.produce("logtime", codec.name)
        assert producer.flush(60) == 0


def run_classic_groups(bootstrap_servers: str) -> None:
    """Three groups, one a library: each reads a record, commits and leaves."""
    from aiokafka import AIOKafkaConsumer
    from confluent_kafka import Consumer
    from kafka import KafkaConsumer

    servers = {"bootstrap.servers": bootstrap_servers}
    confluent = Consumer(servers | {"group.id": "confluent", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    confluent.subscribe(["flights", "logtime"])
    assert confluent.consume(1, 20)
    confluent.commit(asynchronous=False)
    confluent.close()

    plain = KafkaConsumer(
        "flights", bootstrap_servers=bootstrap_servers, group_id="kafka-python", auto_offset_reset="earliest", enable_auto_commit=False
    )
    # In one poll: kafka-python 3.0 forgets what it was assigned when a poll ends in the midst of its joining.
    assert plain.poll(20_000, max_records=1)
    plain.commit()
    plain.close()

    async def read() -> None:
        consumer = AIOKafkaConsumer(
            "flights", bootstrap_servers=bootstrap_servers, group_id="aiokafka", auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        await consumer.getone()
        await consumer.commit()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(read(), 20))


def run_modern_group(bootstrap_servers: str) -> None:
    """A group of the `consumer` protocol (KIP-848), with a pattern."""
    from confluent_kafka import Consumer

    settings = {"group.protocol": "consumer", "group.id": "modern", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})
    consumer.subscribe(["flights", "^log.*"])
    assert consumer.consume(1, 20)
    consumer.commit(asynchronous=False)
    consumer.close()


def run_transactions(bootstrap_servers: str) -> None:
    """Topic `payments`: two transactions, the first of them aborted."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "payer"})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce("payments", b"100", key=b"a")
        producer.flush(60)
        end(60)


@pytest.fixture(scope="module")
def their_data(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Data directories of Apache Kafka: `running` as it lay there while the broker ran, `stopped` after its clean end."""
    running = tmp_path_factory.mktemp("theirs") / "running"
    broker = reference.own({"num.partitions": "1", "log.retention.ms": "-1"})
    for work in (fill, run_classic_groups, run_modern_group, run_transactions):
        work(broker.bootstrap_servers)
    shutil.copytree(broker.log_dir, running)
    broker.stop()
    stopped = running.with_name("stopped")
    shutil.copytree(broker.log_dir, stopped)
    reference.end_own()
    return {"running": running, "stopped": stopped}


@pytest.fixture(scope="module")
def our_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of our broker after its clean end."""
    directory = tmp_path_factory.mktemp("ours") / "data"
    with OttlaProcess(directory) as broker:
        fill(broker.bootstrap_servers)
        run_classic_groups(broker.bootstrap_servers)
        while_it_runs = dump("--deep-iteration", directory)
        assert (while_it_runs.stderr, while_it_runs.exit_code) == ("", 0)
    return directory


def logs(data: Path, partitions: str) -> list[Path]:
    return [path for path in sorted(data.glob(f"{partitions}/*.log")) if path.stat().st_size]


def test_batches_and_records_of_apache_kafka(their_data: Mapping[str, Path], same_lines: Compare) -> None:
    files = [path for pattern in ("flights-0", "logtime-0", "payments-0") for path in logs(their_data["stopped"], pattern)]
    assert len(files) >= 4
    files += [*(their_data["stopped"] / "__cluster_metadata-0").glob("*.checkpoint"), their_data["stopped"] / "bootstrap.checkpoint"]
    same_lines(files=files)
    same_lines("--deep-iteration", files=files)
    printed = same_lines("--print-data-log", files=files)
    assert {f"compresscodec: {codec.name.lower()}" in printed.stdout for codec in Codec} == {True}
    assert "endTxnMarker: ABORT coordinatorEpoch: " in printed.stdout
    assert "KRaftVoters {" in printed.stdout
    same_lines("--print-data-log", "--skip-record-metadata", files=files)
    same_lines("--print-data-log", "--max-bytes", "5000", files=files)


def test_indexes_and_snapshots_of_apache_kafka(their_data: Mapping[str, Path], same_lines: Compare) -> None:
    data = their_data["stopped"]
    files = [path for suffix in ("index", "timeindex", "txnindex", "snapshot") for path in sorted(data.glob(f"[flp]*-0/*.{suffix}"))]
    assert len(files) > 8
    printed = same_lines(files=files)
    assert printed.stdout.count(" position: ") > 10
    assert "lastStableOffset: " in printed.stdout
    assert (printed.stderr, printed.exit_code) == ("", 0)
    indexes = [path for path in files if path.name.endswith("index") and path.stat().st_size and not path.name.endswith("txnindex")]
    assert same_lines("--verify-index-only", files=indexes).exit_code == 0
    assert same_lines("--index-sanity-check", files=indexes).exit_code == 0


def test_the_offsets_topic_of_apache_kafka(their_data: Mapping[str, Path], same_lines: Compare) -> None:
    printed = same_lines("--offsets-decoder", files=logs(their_data["stopped"], "__consumer_offsets-*"))
    assert printed.exit_code == 0
    for record_type in (1, 2, 3, 5, 6, 7, 8, 16):
        assert f'key: {{"type":"{record_type}","data":' in printed.stdout
    for group in ("confluent", "kafka-python", "aiokafka", "modern"):
        assert f'"{group}"' in printed.stdout
    assert '"subscription":{"topics":["flights"' in printed.stdout
    assert "payload: <DELETE>" in printed.stdout


def test_the_transaction_topic_of_apache_kafka(their_data: Mapping[str, Path], same_lines: Compare) -> None:
    printed = same_lines("--transaction-log-decoder", files=logs(their_data["stopped"], "__transaction_state-*"))
    assert '"transactionalId":"payer"' in printed.stdout


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_whole_data_directory_of_apache_kafka_is_sound(their_data: Mapping[str, Path], state: str) -> None:
    printed = dump("--deep-iteration", their_data[state])
    assert (printed.stderr, printed.exit_code) == ("", 0)
    assert "topic: flights partition: 0 offset: " in printed.stdout
    assert "cluster.id: " in printed.stdout
    assert printed.stdout.count(" topic_id: ") > 50


def test_everything_that_our_broker_wrote(our_data: Path, same_lines: Compare) -> None:
    files = [path for pattern in ("flights-0", "logtime-0") for path in logs(our_data, pattern)]
    assert len(files) >= 3
    same_lines("--print-data-log", files=files)
    beside = [path for suffix in ("index", "timeindex", "snapshot") for path in sorted(our_data.glob(f"[fl]*-0/*.{suffix}"))]
    assert same_lines(files=beside).exit_code == 0
    printed = same_lines("--offsets-decoder", files=logs(our_data, "__consumer_offsets-*"))
    for group in ("confluent", "kafka-python", "aiokafka"):
        assert f'"{group}"' in printed.stdout
    assert (dump(our_data).stderr, dump(our_data).exit_code) == ("", 0)


def test_batches_that_only_a_cleaner_or_a_clock_makes(tmp_path: Path, same_lines: Compare) -> None:
    records = [Record(n, 1000 + n, b"k", None, (Header("ž", b""),)) for n in (10, 12)]
    batches = [
        encode_batch(
            records, base_offset=7, last_offset=15, delete_horizon_ms=99, producer_id=5, producer_epoch=2, base_sequence=2**31 - 4
        ),
        encode_batch([Record(20, 1, b"a", b"b", ())], base_offset=16, leader_epoch=9, is_log_append_time=True, codec=Codec.ZSTD),
    ]
    path = tmp_path / "00000000000000000007.log"
    path.write_bytes(b"".join(map(bytes, batches)) + b"the beginning of nothing")
    printed = same_lines("--print-data-log", files=[path])
    assert "deleteHorizonMs: OptionalLong[99]" in printed.stdout
    assert "Found 24 invalid bytes at the end of 00000000000000000007.log" in printed.stdout
    assert printed.exit_code == 1


def test_a_wrong_checksum_and_index_entries_that_are_wrong(
    their_data: Mapping[str, Path], tmp_path: Path, reference: Any, same_lines: Compare
) -> None:
    source = their_data["stopped"] / "flights-0"
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source / f"{FIRST}{suffix}", tmp_path)
    log, index, times = (tmp_path / f"{FIRST}{suffix}" for suffix in (".log", ".index", ".timeindex"))
    data = bytearray(log.read_bytes())
    data[30] ^= 1  # the base timestamp of the first batch
    log.write_bytes(data)
    printed = same_lines("--deep-iteration", files=[log])
    assert "isvalid: false" in printed.stdout
    assert printed.exit_code == 1
    entries = bytearray(index.read_bytes())
    entries[8:12] = pack(">i", int.from_bytes(entries[8:12]) + 1)
    index.write_bytes(entries)
    moments = bytearray(times.read_bytes())
    moments[12:20] = pack(">q", int.from_bytes(moments[12:20]) + 1)
    times.write_bytes(moments)
    printed = same_lines("--verify-index-only", files=[index, times])
    assert printed.exit_code == 1
    command = reference.java_command("org.apache.kafka.tools.DumpLogSegments", "--verify-index-only", "--files", f"{index},{times}")
    theirs = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(printed.stderr.splitlines()) == sorted(theirs.stderr.splitlines())
