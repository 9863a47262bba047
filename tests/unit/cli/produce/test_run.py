"""Tests of a run of `ottla produce`. With real brokers: tests/clients/test_consume_command.py."""

import io
import os
import signal
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ottla.cli.produce.properties import Target
from ottla.cli.produce.records import LineFormat
from ottla.cli.produce.run import ProduceOptions, run


def produce(producer: Any, lines: Any, **options: Any) -> tuple[int, str, str]:
    def make(properties: Any) -> Any:
        producer.properties = properties
        return producer

    out, err = io.StringIO(), io.StringIO()
    target = options.pop("target", Target(bootstrap_server="h:1"))
    given = ProduceOptions(target=target, topic="t", **options)
    status = run(given, lines, out=out, err=err, shows_progress=False, make_producer=make)
    return status, out.getvalue(), err.getvalue()


def test_every_line_is_written(producer: Any) -> None:
    assert produce(producer, [b"a\n", b"b\n"]) == (0, "2 records written to t\n", "")
    assert [each[1] for each in producer.produced] == [b"a", b"b"]
    assert producer.properties["bootstrap.servers"] == "h:1"


def test_failures_are_the_exit_status(producer: Any) -> None:
    status, out, err = produce(producer, [b"a\n", b"bad\n"])
    assert (status, out) == (1, "1 records written to t\n")
    assert err == "Error: line 2 was not written: Local: Message timed out\nError: 1 records were not written\n"


def test_a_line_that_is_none_ends_the_reading(producer: Any) -> None:
    status, out, err = produce(producer, [b"a:b\n", b"a\n", b"c:d\n"], form=LineFormat(key_delimiter=b":"))
    assert (status, out) == (1, "1 records written to t\n")
    assert err == "Error: line 2: it has no key delimiter ':'\n"


def test_a_signal_ends_the_reading(producer: Any) -> None:
    def lines() -> Iterator[bytes]:
        yield b"a\n"
        os.kill(os.getpid(), signal.SIGINT)
        yield b"b\n"

    assert produce(producer, lines()) == (0, "1 records written to t\n", "")


def test_an_input_that_cannot_be_read(producer: Any) -> None:
    def lines() -> Iterator[bytes]:
        yield b"a\n"
        raise IsADirectoryError(21, "Is a directory")

    status, out, err = produce(producer, lines())
    assert (status, out, err) == (1, "1 records written to t\n", "Error: the input cannot be read: Is a directory\n")


def test_properties_that_make_no_producer(producer: Any) -> None:
    target = Target(bootstrap_server="h:1", config=[("bootstrap.servers", "x:1")])
    assert produce(producer, [b"a"], target=target)[::2] == (
        1,
        "Error: bootstrap.servers cannot be set by --config: it follows from the other options\n",
    )

    def refuse(_: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "No such configuration property"))

    err = io.StringIO()
    options = ProduceOptions(target=Target(bootstrap_server="h:1"), topic="t")
    assert run(options, [], out=io.StringIO(), err=err, shows_progress=False, make_producer=refuse) == 1
    assert err.getvalue() == "Error: No such configuration property\n"


def test_what_the_client_reports_is_said_once(producer: Any) -> None:
    def lines() -> Iterator[bytes]:
        for waited_ms in range(2):
            producer.properties["error_cb"](KafkaError(KafkaError._TRANSPORT, f"Connection refused (after {waited_ms}ms)"))
        yield b"a\n"

    assert produce(producer, lines()) == (0, "1 records written to t\n", "Connection refused (after 0ms)\n")
