"""The writing task with a scripted producer."""

import datetime
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.arrow.decoder import HEADER_TYPE
from ottla.spark.migration import writer
from ottla.spark.migration.chunks import CHUNK_ORDER, CHUNKS, LATEST, PHASE, TARGET, chunk
from ottla.spark.migration.values import SOURCE_HEADER, MigrationError
from ottla.spark.migration.writer import BYTES_MIN, FORGOTTEN_MS, MigrationWriter, merge
from ottla.spark.sink.producer_settings import parse_producer_settings
from ottla.spark.sink.senders import SenderPool
from ottla.testing import Broker

TIME = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, datetime.UTC)
NOW_MS = int(TIME.timestamp() * 1000)
ROW: dict[str, Any] = {"key": b"k", "value": None, "headers": [{"key": "h", "value": b"v"}], "timestamp": TIME, "offset": 40, TARGET: 1}
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADER_TYPE),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        (TARGET, pa.int32()),
        (PHASE, pa.int32()),
        (LATEST, pa.int64()),
    ]
)


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.spark.sink.senders.WORKER_SENDERS", SenderPool())


def write(*rows: dict[str, Any], producer: dict[str, str] | None = None) -> list[dict[str, Any]]:
    records = pa.RecordBatch.from_pylist([{"partition": 4, PHASE: 0, LATEST: 0, **row} for row in rows], SCHEMA)
    settings = parse_producer_settings(producer or {"bootstrap.servers": "h:1"})
    task = MigrationWriter(producer=settings, source="wide", target="t", began_ms=NOW_MS)
    return [row for made in task(iter([chunk(records, 1)])) for row in made.to_pylist()]


def test_every_record_is_written_with_its_origin_and_counted(producers: Any) -> None:
    assert write(ROW, {**ROW, "offset": 41, "headers": None}, {**ROW, "offset": 42, TARGET: 2}) == [
        {TARGET: 1, "records": 2},
        {TARGET: 2, "records": 1},
    ]
    (made,) = producers.made
    assert made.settings["enable.idempotence"] is True
    first, second, _ = made.sent
    assert (first["topic"], first["key"], first["value"], first["partition"]) == ("t", b"k", None, 1)
    assert first["timestamp"] == 1_767_323_045_678
    assert first["headers"] == [("h", b"v"), (SOURCE_HEADER, b"wide:4:40")]
    assert second["headers"] == [(SOURCE_HEADER, b"wide:4:41")]


def test_no_record_loses_a_millisecond_of_its_time(producers: Any) -> None:
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    times_ms = range(1_073_741_824_000, 1_073_741_825_000)
    rows = [{**ROW, "timestamp": epoch + datetime.timedelta(milliseconds=each), "offset": each, "headers": None} for each in times_ms]
    write(*rows)
    assert [each["timestamp"] for each in producers.made[0].sent] == list(times_ms)


def test_the_time_zero_is_not_now(producers: Any) -> None:
    write({**ROW, "timestamp": datetime.datetime.fromtimestamp(0, datetime.UTC)})
    assert producers.made[0].sent[0]["timestamp"] == 1


def test_nothing_to_write(producers: Any) -> None:
    assert write() == []


def test_a_record_that_is_refused_fails_the_migration(producers: Any) -> None:
    producers.fails = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
    with pytest.raises(MigrationError, match="cannot write to t: cannot write the record with key b'k'"):
        write(ROW)
    assert producers.made[0].is_purged


def test_a_second_attempt_of_a_task_writes_nothing(producers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        @staticmethod
        def attemptNumber() -> int:
            return 1

    import pyspark

    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Context())
    with pytest.raises(MigrationError, match="a task failed while it wrote to t: run the same command again"):
        write(ROW)
    assert producers.made == []
    assert writer.WRITTEN.fieldNames() == [TARGET, "records"]


def test_nothing_is_written_behind_a_record_that_was_not(ottla_broker: Broker) -> None:
    """A later run would take the offset of the last one for the end of what is there."""
    ottla_broker.create_topic("t", 2, config={"max.message.bytes": 2000})
    now = datetime.datetime.now(datetime.UTC)
    rows = [{**ROW, "timestamp": now, "offset": offset, "value": b"v" * (5_000 if offset == 45 else 500)} for offset in range(40, 60)]
    # Batches of one record each, on their way at the same time.
    producer = {"bootstrap.servers": ottla_broker.bootstrap_servers, "batch.size": "1000"}
    with pytest.raises(MigrationError, match=r"cannot write to t: the producer cannot continue: .*too large"):
        write(*rows, producer=producer)
    ottla_broker.produce("t", [b"last"], partition=1)
    *copied, last = sorted(ottla_broker.consume("t", 6), key=lambda record: (record.partition, record.offset))
    assert last.value == b"last"
    assert [dict(each.headers)[SOURCE_HEADER] for each in copied] == [b"wide:4:%d" % offset for offset in range(40, 45)]


@pytest.mark.parametrize(("age_ms", "ends"), [(FORGOTTEN_MS + 1_000, True), (1_000, False)])
def test_old_records_are_not_sent_again_after_a_lost_connection(producers: Any, age_ms: int, ends: bool) -> None:
    """Apache Kafka may not know any more that it has them."""

    producers.disconnects = True
    time = TIME - datetime.timedelta(milliseconds=age_ms)
    with pytest.raises(MigrationError, match=r"a connection was lost .* Run the same command again") if ends else nullcontext():
        write({**ROW, "timestamp": TIME}, {**ROW, "timestamp": time, "offset": 41})


def test_the_time_limit_is_the_senders(producers: Any) -> None:
    """One of a single record would drop it, and write those behind it when the broker is back."""
    write(ROW)
    assert producers.made[0].settings["delivery.timeout.ms"] == 0


Row = tuple[int, int, int, int]

PARTITIONS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=30).map(sorted), min_size=1, max_size=4)


def chunks_of(partition: int, rows: list[Row], size: int) -> list[pa.RecordBatch]:
    made = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        columns = {
            TARGET: pa.array([0] * len(part), pa.int32()),
            PHASE: pa.array([row[0] for row in part], pa.int32()),
            LATEST: pa.array([row[1] for row in part], pa.int64()),
            "partition": pa.array([partition] * len(part), pa.int32()),
            "offset": pa.array([row[3] for row in part], pa.int64()),
        }
        made.append(chunk(pa.RecordBatch.from_pydict(columns), 1))
    return made


@given(PARTITIONS, st.integers(1, 7), st.integers(1, 40), st.sampled_from([1, 1000, BYTES_MIN]))
def test_every_record_in_order(partitions: list[list[tuple[int, int]]], size: int, rows_min: int, bytes_min: int) -> None:
    rows = [[(phase, latest, number, offset) for offset, (phase, latest) in enumerate(each)] for number, each in enumerate(partitions)]
    chunks = [made for number, each in enumerate(rows) for made in chunks_of(number, each, size)]
    chunks.sort(key=lambda each: tuple(each.column(name)[0].as_py() for name in CHUNK_ORDER))
    tables = merge(chunks, rows_min=rows_min, bytes_min=bytes_min)
    merged = [row for table in tables for row in zip(*(table.column(name).to_pylist() for name in CHUNK_ORDER))]
    assert merged == sorted(row for each in rows for row in each)


def test_nothing_of_nothing() -> None:
    assert list(merge([])) == []
    assert list(merge([pa.RecordBatch.from_pylist([], pa.schema([(name, pa.binary()) for name in CHUNKS.fieldNames()]))])) == []


def test_times_too_far_apart_for_one_number() -> None:
    far = 2**62
    rows = {0: [(0, 0, 0, 0), (1, far, 0, 1)], 1: [(0, 5, 1, 0), (1, far, 1, 1)]}
    chunks = [made for number, each in rows.items() for made in chunks_of(number, each, 2)]
    merged = [row for table in merge(chunks) for row in zip(*(table.column(name).to_pylist() for name in CHUNK_ORDER))]
    assert merged == sorted(row for each in rows.values() for row in each)
