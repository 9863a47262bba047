"""`ottla produce`: lines become records, and each is acknowledged or reported."""

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.clusters import CommandFailed
from ottla.cli.main import main
from ottla.cli.produce import produce as run_module
from ottla.cli.produce.produce import LineFormat, ProduceOptions, ProducerTarget, Writing, producer_properties, records, run
from ottla.cli.records import RecordProgress, RecordToWrite


class Producer:
    """Takes `queue_max` records until it is polled, fails those whose value is b"bad", and refuses b"large" at once."""

    def __init__(self, queue_max: int = 1_000) -> None:
        self.properties: Any = None
        self.produced: list[tuple[Any, ...]] = []
        self._queue_max = queue_max
        self._waiting: list[Any] = []

    def produce(self, topic: str, value: Any, key: Any, *, headers: Any, on_delivery: Any, **more: Any) -> None:
        if len(self._waiting) >= self._queue_max:
            raise BufferError
        if value == b"large":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.produced.append((topic, value, key, headers, more))
        self._waiting.append((on_delivery, KafkaError(KafkaError._MSG_TIMED_OUT) if value == b"bad" else None))

    def poll(self, timeout: float) -> None:
        if timeout:
            self.flush(timeout)

    def flush(self, _: float) -> int:
        for on_delivery, error in self._waiting:
            on_delivery(error, None)
        self._waiting.clear()
        return 0


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
def small_producer() -> Producer:
    return Producer(queue_max=2)


REQUIRED = ["--bootstrap-server", "h:1", "--topic", "t"]


@pytest.fixture
def given(monkeypatch: Any) -> list[tuple[ProduceOptions, list[bytes]]]:
    """The options and lines of each run."""
    found: list[tuple[ProduceOptions, list[bytes]]] = []
    monkeypatch.setattr(run_module, "run", lambda options, lines, **_: found.append((options, list(lines))) or 0)
    return found


def test_the_options_of_the_command_line(given: list[tuple[ProduceOptions, list[bytes]]], tmp_path: Any) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"k:v\n")
    more = ["--key-delimiter", ":", "--null", "-", "--header", "a=1", "--header", "b=2=3", "--partition", "4", "--compression", "zstd"]
    more += ["--timeout", "2", "--config", "linger.ms=5", "--command-config", "f", str(file)]
    assert CliRunner().invoke(main, ["produce", *REQUIRED, *more]).exit_code == 0
    assert CliRunner().invoke(main, ["produce", *REQUIRED, "--json"], input=b"{}\n{}").exit_code == 0
    target = ProducerTarget(bootstrap_server="h:1", timeout_s=2.0, compression="zstd", command_config="f", config=(("linger.ms", "5"),))
    form = LineFormat(key_delimiter=b":", null=b"-", headers=[("a", b"1"), ("b", b"2=3")])
    assert given == [
        (ProduceOptions(target=target, topic="t", form=form, partition=4), [b"k:v\n"]),
        (
            ProduceOptions(target=ProducerTarget(bootstrap_server="h:1", config=()), topic="t", form=LineFormat(is_json=True, headers=[])),
            [b"{}\n", b"{}"],
        ),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option"),
        ([*REQUIRED, "--key-delimiter", ""], "it must not be empty"),
        ([*REQUIRED, "--json", "--null", "x"], "--json says itself what is a key"),
        ([*REQUIRED, "--header", "x"], "write a setting as NAME=VALUE"),
        ([*REQUIRED, "--timeout", "0"], "--timeout"),
        ([*REQUIRED, "/no/such/file"], "No such file"),
    ],
)
def test_what_is_missing_or_wrong(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["produce", *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_without_confluent_kafka_a_sentence_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr("ottla.extras.find_spec", lambda name: None if name == "confluent_kafka" else object())
    result = CliRunner().invoke(main, ["produce", *REQUIRED])
    assert result.exit_code == 1
    assert result.output == 'Error: confluent_kafka is not installed: pip install "ottla[spark]"\n'


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def properties(**given: Any) -> dict[str, Any]:
    found = producer_properties(ProducerTarget(bootstrap_server="h:1", **given))
    confluent_kafka.Producer(found)  # librdkafka takes all of them
    return found


def test_defaults() -> None:
    found = properties()
    assert (found["bootstrap.servers"], found["delivery.timeout.ms"]) == ("h:1", 30_000)
    assert (found["partitioner"], found["enable.idempotence"]) == ("murmur2_random", True)


def test_options_and_single_settings() -> None:
    found = properties(timeout_s=0.5, compression="lz4", config=[("linger.ms", "50"), ("client.id", "mine")])
    assert (found["delivery.timeout.ms"], found["compression.type"], found["linger.ms"], found["client.id"]) == (500, "lz4", "50", "mine")


def test_a_file_has_kafkas_names(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\nclient.id=x\ngroup.id=g\n")
    found = properties(command_config=str(file))
    assert (found["security.protocol"], found["sasl.username"], found["sasl.password"]) == ("SASL_PLAINTEXT", "u", "p")
    assert found["client.id"] == "x"
    assert "group.id" not in found
    file.write_text("security.protocol=SASL_SSL\n")
    with pytest.raises(CommandFailed, match=r"client.properties: sasl.mechanism must be one of"):
        properties(command_config=str(file))


@pytest.mark.parametrize("name", ["bootstrap.servers", "delivery.timeout.ms", "message.timeout.ms"])
def test_what_other_options_decide(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be set by --config"):
        properties(config=[(name, "1")])


def read(*lines: bytes, **form: Any) -> list[tuple[int, RecordToWrite]]:
    return list(records(lines, LineFormat(**form)))


def test_a_line_is_a_value() -> None:
    assert read(b"a\n", b"\n", b"\xff\r\n", b"last") == [
        (1, RecordToWrite(None, b"a")),
        (2, RecordToWrite(None, b"")),
        (3, RecordToWrite(None, b"\xff\r")),
        (4, RecordToWrite(None, b"last")),
    ]


def test_the_first_delimiter_ends_the_key() -> None:
    assert [each for _, each in read(b"k::v::w\n", b"::v\n", key_delimiter=b"::")] == [
        RecordToWrite(b"k", b"v::w"),
        RecordToWrite(b"", b"v"),
    ]


def test_a_text_for_null() -> None:
    lines = (b"NULL:a\n", b"a:NULL\n", b"a:b\n")
    assert [each[1][:2] for each in read(*lines, key_delimiter=b":", null=b"NULL")] == [(None, b"a"), (b"a", None), (b"a", b"b")]
    assert read(b"\n", null=b"") == [(1, RecordToWrite(None, None))]


def test_headers_of_every_record() -> None:
    headers = [("a", b"1")]
    assert read(b"v", headers=headers) == [(1, RecordToWrite(None, b"v", headers))]
    found = read(b'{"value": "v", "headers": [{"key": "b", "value": "2"}]}', is_json=True, headers=headers)
    assert found == [(1, RecordToWrite(None, b"v", [("a", b"1"), ("b", b"2")]))]


@pytest.mark.parametrize(
    ("line", "form", "why"),
    [
        (b"kv\n", {"key_delimiter": b":"}, "line 2: it has no key delimiter ':'"),
        (b"kv\n", {"is_json": True}, "line 2: it is not JSON"),
    ],
)
def test_a_line_that_is_none_comes_after_those_before_it(line: bytes, form: dict[str, Any], why: str) -> None:
    first = b"{}" if "is_json" in form else b"a:b"
    found = records([first, line], LineFormat(**form))
    assert next(found)[0] == 1
    with pytest.raises(CommandFailed, match=why):
        next(found)


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


def produce(producer: Any, lines: Any, **options: Any) -> tuple[int, str, str]:
    def make(properties: Any) -> Any:
        producer.properties = properties
        return producer

    out, err = io.StringIO(), io.StringIO()
    target = options.pop("target", ProducerTarget(bootstrap_server="h:1"))
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
    target = ProducerTarget(bootstrap_server="h:1", config=[("bootstrap.servers", "x:1")])
    assert produce(producer, [b"a"], target=target)[::2] == (
        1,
        "Error: bootstrap.servers cannot be set by --config: it follows from the other options\n",
    )

    def refuse(_: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "No such configuration property"))

    err = io.StringIO()
    options = ProduceOptions(target=ProducerTarget(bootstrap_server="h:1"), topic="t")
    assert run(options, [], out=io.StringIO(), err=err, shows_progress=False, make_producer=refuse) == 1
    assert err.getvalue() == "Error: No such configuration property\n"


def test_what_the_client_reports_is_said_once(producer: Any) -> None:
    def lines() -> Iterator[bytes]:
        for waited_ms in range(2):
            producer.properties["error_cb"](KafkaError(KafkaError._TRANSPORT, f"Connection refused (after {waited_ms}ms)"))
        yield b"a\n"

    assert produce(producer, lines()) == (0, "1 records written to t\n", "Connection refused (after 0ms)\n")
