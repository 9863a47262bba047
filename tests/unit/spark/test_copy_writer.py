"""What a copy's worker does when the producer is slow, or fails, or was at it before."""

import datetime
from typing import Any

import pyarrow as pa
import pytest

from ottla.spark import copy_writer
from ottla.spark.copy_writer import CopyError, CopyWriter

ROW = {
    "key": b"k",
    "value": None,
    "headers": [{"key": "h", "value": b"v"}],
    "timestamp": datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, datetime.UTC),
    "partition": 4,
    "offset": 40,
    "target_partition": 1,
}


class Message:
    def __init__(self, partition: int, offset: int) -> None:
        self._place = partition, offset

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]


class Producer:
    """A producer of which the test says what goes wrong."""

    made: "list[Producer]" = []
    full_times = 0
    error: str | None = None
    left = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.sent: list[dict[str, Any]] = []
        self.polls = 0
        self.made.append(self)

    def produce(self, topic: str, **arguments: Any) -> None:
        if self.polls < self.full_times:
            raise BufferError("queue full")
        self.sent.append({"topic": topic, **arguments})

    def poll(self, _seconds: float) -> None:
        self.polls += 1

    def flush(self, _seconds: float) -> int:
        for number, each in enumerate(self.sent):
            each["on_delivery"](self.error, Message(each["partition"], number))
        return self.left


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    import confluent_kafka

    class Fresh(Producer):
        made: "list[Producer]" = []

    monkeypatch.setattr(confluent_kafka, "Producer", Fresh)
    return Fresh


def write(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(list(rows))
    return [row for made in CopyWriter("h:1", "narrow")(iter([batch])) for row in made.to_pylist()]


def test_no_record_loses_a_millisecond_of_its_time(producer: type[Producer]) -> None:
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)
    times_ms = range(1_073_741_824_000, 1_073_741_825_000)
    write(*({**ROW, "timestamp": epoch + datetime.timedelta(milliseconds=each)} for each in times_ms))
    assert [each["timestamp"] for each in producer.made[0].sent] == list(times_ms)


def test_every_row_is_written_as_it_is_and_its_new_place_told(producer: type[Producer]) -> None:
    found = write(ROW, {**ROW, "offset": 41, "headers": None})
    assert found == [
        {"partition": 4, "offset": 40, "target_partition": 1, "target_offset": 0},
        {"partition": 4, "offset": 41, "target_partition": 1, "target_offset": 1},
    ]
    (made,) = producer.made
    assert made.settings["enable.idempotence"] is True
    first = made.sent[0]
    assert (first["key"], first["value"], first["headers"], first["timestamp"]) == (b"k", None, [("h", b"v")], 1_767_323_045_678)
    assert made.sent[1]["headers"] == []


def test_a_full_queue_is_waited_for(producer: type[Producer]) -> None:
    producer.full_times = 3
    assert len(write(ROW)) == 1
    assert producer.made[0].polls == 3


def test_a_record_that_is_refused_fails_the_copy(producer: type[Producer]) -> None:
    producer.error = "too large"
    with pytest.raises(CopyError, match="cannot write to narrow: record 40 of partition 4: too large"):
        write(ROW)


def test_records_without_an_answer_fail_the_copy(producer: type[Producer]) -> None:
    producer.left = 1
    with pytest.raises(CopyError, match="were not acknowledged within 120 s"):
        write(ROW)


def test_a_task_that_was_at_it_before_writes_nothing_twice(producer: type[Producer], monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        @staticmethod
        def attemptNumber() -> int:
            return 1

    import pyspark

    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Context())
    with pytest.raises(CopyError, match="delete narrow and copy again"):
        write(ROW)
    assert copy_writer.DELIVERY_S_MAX == 120
    assert producer.made == []
