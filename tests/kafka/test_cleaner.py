"""The same partitions, cleaned by Apache Kafka and by both of our backends: equal files, byte for byte, indexes too.

Only where batches are compressed again are they equal as decoded: those bytes depend on the compressing library.
Apache Kafka fills the topics with its cleaner away, a copy is taken, its cleaner comes and goes; we clean the copy, as if at the same time
(which the delete horizons show). Then more is written, tombstones and markers come to their horizon, and both clean again.
"""

import shutil
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.log.checkpoints import CLEANER_FILE, decode_offsets
from ottla.log.cleaner.backend import CleaningBackend, ReferenceBackend
from ottla.log.compiled.cleaning import CompiledBackend
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import BatchHeader, decode_batch, encode_batch, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until
from tests.support.kit.cleaning import clean_now

pytestmark = pytest.mark.kafka

SEGMENT_BYTES = 1 << 20
DELETE_RETENTION_MS = 4000
# Data goes in the first round, its markers get a horizon in the second and go in the third.
ROUNDS = 3
CONFIG = {"log.cleaner.backoff.ms": "100", "transaction.state.log.num.partitions": "1"}
TOPICS = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "mixed": {},
    "paid": {},
}
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "segment.bytes": str(SEGMENT_BYTES),
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "min.cleanable.dirty.ratio": "0.01",
}
SETTINGS = LogSettings(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES, delete_retention_ms=DELETE_RETENTION_MS)


class Cluster:
    """Apache Kafka with the topics, and short ways to fill and clean them."""

    def __init__(self, kafka: Any) -> None:
        self.kafka = kafka
        self.random = Random(4)
        self.raw = RawClient(kafka.bootstrap_servers)
        self.sequence = dict.fromkeys(TOPICS, 0)

    def make_topics(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        made = [NewTopic(topic, 1, 1, config=TOPIC_CONFIG | config) for topic, config in TOPICS.items()]
        for future in admin.create_topics(made).values():
            future.result(60)

    def records(self, count: int) -> list[Record]:
        """Some with headers, some deleting their key; times go up and down."""
        now_ms, rng = int(time.time() * 1000), self.random
        return [
            Record(
                number,
                now_ms - rng.randrange(10_000),
                b"key %d" % rng.randrange(300),
                None if rng.random() < 0.1 else rng.randbytes(rng.randrange(1200)),
                (Header("trace", rng.randbytes(3)), Header("none", None)) if rng.random() < 0.3 else (),
            )
            for number in range(count)
        ]

    def fill(self, topic: str, batches: int, codecs: list[Codec]) -> None:
        """Batches of one or many records; every third one by the same idempotent producer."""
        for number in range(batches):
            some = self.records(self.random.choice([1, 3, 25]))
            producer: dict[str, int] = {}
            if number % 3 == 0:
                producer = {"producer_id": 4242, "producer_epoch": 0, "base_sequence": self.sequence[topic]}
                self.sequence[topic] += len(some)
            batch = encode_batch(some, codec=codecs[number % len(codecs)], **producer)  # type: ignore[arg-type]
            partition_data = [{"index": 0, "records": bytes(batch)}]
            answer = self.produce(topic, partition_data)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer

    def produce(self, topic: str, partition_data: list[dict[str, Any]]) -> Any:
        """Asks again while Apache Kafka does not lead a partition yet that it has just made."""
        deadline = time.monotonic() + 10
        while True:
            answer = self.raw.call(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": partition_data}])
            if answer.responses[0].partition_responses[0].error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
                return answer
            time.sleep(0.01)

    def pay(self, transactions: int) -> None:
        """Transactions of three producers, some aborted; the first of them writes nothing in the second half."""
        from confluent_kafka import Producer

        producers = []
        for number in range(3):
            producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "transactional.id": f"payer-{number}"})
            producer.init_transactions(60)
            producers.append(producer)
        for number in range(transactions):
            producer = producers[number % 3 if number < transactions // 2 else 1 + number % 2]
            producer.begin_transaction()
            for _ in range(self.random.choice([1, 10])):
                value = None if self.random.random() < 0.1 else self.random.randbytes(2000)
                producer.produce("paid", value, b"key %d" % self.random.randrange(60), 0)
            assert producer.flush(60) == 0  # what is still queued an abort takes back
            (producer.abort_transaction if self.random.random() < 0.4 else producer.commit_transaction)(60)

    def set_policy(self, policy: str) -> None:
        for topic in TOPICS:
            config = {"name": "cleanup.policy", "config_operation": 0, "value": policy}
            resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
            (response,) = self.raw.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
            assert response.error_code == ErrorCode.NONE, response

    def clean(self) -> dict[str, int]:
        """Let the cleaner in until it has been everywhere; up to where it cleaned each topic."""
        self.set_policy("compact")
        wait_until(
            lambda: self.cleaned() == {topic: self.active_base(topic) for topic in TOPICS},
            lambda: f"the cleaner, not {self.cleaned()}",
            lambda: time.sleep(0.1),
            seconds=60,
        )
        self.set_policy("delete")
        return self.cleaned()

    def cleaned(self) -> dict[str, int]:
        path = self.kafka.log_dir / CLEANER_FILE
        found = decode_offsets(path.read_bytes()) if path.exists() else None
        return {each.topic: offset for each, offset in (found or {}).items() if each.topic in TOPICS}

    def active_base(self, topic: str) -> int:
        return max(int(path.stem) for path in (self.kafka.log_dir / f"{topic}-0").glob("*.log"))

    def copy(self, target: Path) -> Path:
        """The topics' files as they are; what is only waiting to be removed stays behind."""
        for topic in TOPICS:
            shutil.copytree(self.kafka.log_dir / f"{topic}-0", target / f"{topic}-0", ignore=shutil.ignore_patterns("*.deleted"))
        return target


def logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def batches(directory: Path) -> list[tuple[BatchHeader, list[Record]]]:
    return [(header, decode_batch(data, at)) for data in logs(directory).values() for at, header in split_batches(data)]


def headers(directory: Path) -> list[BatchHeader]:
    return [header for data in logs(directory).values() for _, header in split_batches(data)]


def time_of_cleaning_ms(before: Path, after: Path) -> int:
    """When the cleaning was that led from one to the other: the delete horizons that it set tell. (Without one, now is as good.)"""

    def horizons(directory: Path) -> set[int | None]:
        return {header.delete_horizon_ms for header in headers(directory)}

    (horizon_ms,) = horizons(after) - horizons(before) or {int(time.time() * 1000) + DELETE_RETENTION_MS}
    assert horizon_ms is not None
    return horizon_ms - DELETE_RETENTION_MS


def clean_here(directory: Path, topic: str, checkpoint: int, now_ms: int, backend: CleaningBackend) -> int:
    """Clean the copy of a topic in `directory`; up to where."""
    files = OsFiles(directory)
    log = PartitionLog(files, f"{topic}-0", SETTINGS)
    log.open(now_ms)
    log.flush()
    log.sync_rolled()
    done = clean_now(files, log, now_ms=now_ms, checkpoint=checkpoint, backend=backend)
    log.close()
    return done.end_offset


def files_of(directory: Path, suffixes: tuple[str, ...], end_offset: int) -> dict[str, bytes]:
    """The cleaned segments' files; an index of transactions that is empty is none."""
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in suffixes and int(path.stem) < end_offset}
    return {name: data for name, data in found.items() if data or not name.endswith(".txnindex")}


def assert_equal(ours: Path, theirs: Path, topic: str, end_offset: int) -> None:
    ours, theirs = ours / f"{topic}-0", theirs / f"{topic}-0"
    assert_read_alike(ours, theirs)
    # Compressed again, bytes depend on the library, and where batches lie depends on the bytes.
    suffixes = (".txnindex",) if topic == "mixed" else (".log", ".index", ".timeindex", ".txnindex")
    expected = files_of(theirs, suffixes, end_offset)
    found = files_of(ours, suffixes, end_offset)
    assert found.keys() == expected.keys()
    for name, data in expected.items():
        assert found[name] == data, name


def assert_read_alike(ours: Path, theirs: Path) -> None:
    """The same batches of the same records. Logs of the same bytes hold the same: they are not decoded, which takes long."""
    if logs(ours) != logs(theirs):
        as_read = [(header._replace(batch_length=0, crc=0), records) for header, records in batches(theirs)]
        assert [(header._replace(batch_length=0, crc=0), records) for header, records in batches(ours)] == as_read


def test_the_cleaner_leaves_the_files_that_apache_kafkas_leaves(reference: Any, tmp_path: Path) -> None:
    cluster = Cluster(reference.own(CONFIG))
    cluster.make_topics()

    def fill() -> None:
        """About a segment and a half of each: the cleaner takes what is not the active one."""
        cluster.fill("plain", 270, [Codec.NONE])
        cluster.fill("stamped", 270, [Codec.NONE])
        cluster.fill("mixed", 270, list(Codec))
        cluster.pay(150)

    checkpoints = dict.fromkeys(TOPICS, 0)
    cleaned_ms = 0
    for number in range(ROUNDS):
        fill()
        assert all(cluster.active_base(topic) > checkpoints[topic] for topic in TOPICS)
        # Tombstones and markers of the round before have come to their horizon.
        time.sleep(max(0, cleaned_ms + DELETE_RETENTION_MS - time.time() * 1000) / 1000)
        before = cluster.copy(tmp_path / f"before-{number}")
        ends = cluster.clean()
        theirs = cluster.copy(tmp_path / f"theirs-{number}")
        for topic in TOPICS:
            now_ms = time_of_cleaning_ms(before / f"{topic}-0", theirs / f"{topic}-0")
            cleaned_ms = max(cleaned_ms, now_ms)
            assert len(headers(theirs / f"{topic}-0")) < len(headers(before / f"{topic}-0"))
            for backend in (ReferenceBackend(), CompiledBackend()):
                ours = tmp_path / f"{type(backend).__name__}-{number}"
                shutil.copytree(before / f"{topic}-0", ours / f"{topic}-0")
                assert clean_here(ours, topic, checkpoints[topic], now_ms, backend) == ends[topic]
                assert_equal(ours, theirs, topic, ends[topic])
        checkpoints = ends
    assert_all_was_met(tmp_path)


def assert_all_was_met(directory: Path) -> None:
    """The comparison is worth something: everything that a cleaner may meet was there."""
    first, second = batches(directory / "theirs-0" / "plain-0"), batches(directory / "theirs-1" / "plain-0")
    horizons = {header.delete_horizon_ms for header, _ in first} - {None}
    early = [(header, records) for header, records in second if header.delete_horizon_ms in horizons]
    assert horizons
    assert not any(record.value is None for _, records in early for record in records), "tombstones of the first round are gone"
    assert any(records and header.record_count <= header.last_offset_delta for header, records in second), "batches with gaps"
    paid = [batches(directory / f"theirs-{number}" / "paid-0") for number in range(ROUNDS)]
    assert any(header.record_count == 0 for found in paid for header, _ in found), "empty batches of live producers"
    marked = {header.base_offset for header, _ in paid[1] if header.is_control and header.delete_horizon_ms is not None}
    assert marked - {header.base_offset for header, _ in paid[2]}, "markers that went at their horizon"
    assert any(path.stat().st_size for path in (directory / "theirs-0" / "paid-0").glob("*.txnindex"))
