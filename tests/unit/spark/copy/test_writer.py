"""A copy's worker with a slow or failing producer, and in a second attempt."""

import datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from ottla.spark.copy.writer import CopyError, CopyWriter

ROW = {
    "key": b"k",
    "value": None,
    "headers": [{"key": "h", "value": b"v"}],
    "timestamp": datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, datetime.UTC),
    "partition": 4,
    "offset": 40,
    "target_partition": 1,
}


def write(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(rows))
    return [row for made in CopyWriter("h:1", "t")(iter([batch])) for row in made.to_pylist()]


def test_no_record_loses_a_millisecond_of_its_time(producers: Any) -> None:
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    times_ms = range(1_073_741_824_000, 1_073_741_825_000)
    write(*({**ROW, "timestamp": epoch + datetime.timedelta(milliseconds=each)} for each in times_ms))
    assert [each["timestamp"] for each in producers.made[0].sent] == list(times_ms)


def test_every_row_is_written_unchanged_and_mapped_to_its_offset(producers: Any) -> None:
    found = write(ROW, {**ROW, "offset": 41, "headers": None})
    assert found == [
        {"partition": 4, "offset": 40, "target_partition": 1, "target_offset": 0},
        {"partition": 4, "offset": 41, "target_partition": 1, "target_offset": 1},
    ]
    (made,) = producers.made
    assert made.settings["enable.idempotence"] is True
    first = made.sent[0]
    assert (first["topic"], first["key"], first["value"], first["headers"]) == ("t", b"k", None, [("h", b"v")])
    assert (first["partition"], first["timestamp"]) == (1, 1_767_323_045_678)
    assert made.sent[1]["headers"] is None


def test_a_full_queue_is_waited_for(producers: Any) -> None:
    producers.full_times = 3
    assert len(write(ROW)) == 1


def test_a_record_that_is_refused_fails_the_copy(producers: Any) -> None:
    producers.fails = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
    with pytest.raises(CopyError, match=r"cannot write to t: record 40 of partition 4: .*too large"):
        write(ROW)


def test_a_second_attempt_of_a_task_writes_nothing(producers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        @staticmethod
        def attemptNumber() -> int:
            return 1

    import pyspark

    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Context())
    with pytest.raises(CopyError, match="delete t and copy again"):
        write(ROW)
    assert producers.made == []
