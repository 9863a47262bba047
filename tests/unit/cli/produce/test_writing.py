"""Tests of writing records and counting which were acknowledged."""

import io
from typing import Any

from ottla.cli.produce.writing import Writing
from ottla.cli.record_json import RecordToWrite
from ottla.cli.record_progress import RecordProgress


def write(producer: Any, *values: bytes | None, partition: int | None = None, **more: Any) -> tuple[Writing, str]:
    err = io.StringIO()
    writing = Writing(producer, "t", partition=partition, progress=RecordProgress(err))
    writing.write((number, RecordToWrite(b"k", value, **more)) for number, value in enumerate(values, 1))
    writing.finish()
    return writing, err.getvalue()


def test_what_a_record_has_is_what_the_producer_gets(producer: Any) -> None:
    write(producer, b"v", headers=[("h", None)])
    write(producer, None, partition=3, timestamp_ms=17)
    assert producer.produced == [
        ("t", b"v", b"k", [("h", None)], {}),
        ("t", None, b"k", [], {"partition": 3, "timestamp": 17}),
    ]


def test_a_full_queue_is_waited_for(small_producer: Any) -> None:
    writing, _ = write(small_producer, *[b"%d" % number for number in range(7)])
    assert [each[1] for each in small_producer.produced] == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert (writing.written, writing.failed) == (7, 0)


def test_failures_are_counted_and_the_first_ones_reported(producer: Any) -> None:
    writing, err = write(producer, b"a", b"large", b"bad", b"b", *[b"bad"] * 8)
    assert (writing.written, writing.failed) == (2, 10)
    assert err.splitlines()[:2] == [
        "Error: line 2 was not written: Broker: Message size too large",
        "Error: line 3 was not written: Local: Message timed out",
    ]
    assert err.count("was not written") == 5
