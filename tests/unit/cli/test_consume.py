"""`ottla consume`: options, where reading begins, formats, and reasons to end."""

import io
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from click.testing import CliRunner

from ottla.cli import consume as run_module
from ottla.cli.clusters import CommandFailed
from ottla.cli.consume import (
    BATCH,
    BEGINNING,
    END,
    STORED,
    ConsumeOptions,
    ConsumerSource,
    Limits,
    PartitionEnds,
    Reading,
    StartKind,
    StartPosition,
    assignments,
    consumer_properties,
    json_lines,
    parse_start,
    run,
    text_format,
    write_all,
)
from ottla.cli.main import main
from ottla.cli.records import RecordProgress
from ottla.cli.signals import Stopped, StopRequest
from ottla.client.consumer.consumer import Consumer as OwnConsumer
from ottla.client.consumer.kafka_errors import KafkaError, exception
from ottla.client.consumer.lookups import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.consumer.message import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED, ErrorMessage, TopicPartition
from ottla.client.consumer.properties import parse_properties
from ottla.protocol.model import TopicPartition as Partition

REQUIRED = ["--bootstrap-server", "h:1", "--topic", "t"]


@pytest.fixture
def given(monkeypatch: Any) -> list[ConsumeOptions]:
    """The options of each run."""
    found: list[ConsumeOptions] = []
    monkeypatch.setattr(run_module, "run", lambda options, **_: found.append(options) or 0)
    return found


def consume(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["consume", *arguments])


def test_the_options_of_the_command_line(given: list[ConsumeOptions]) -> None:
    more = ["--topic", "^u", "--partition", "3", "--offset", "-7", "--count", "5", "--exit-at-end", "--timeout", "2.5"]
    more += ["--isolation-level", "read_uncommitted", "--config", "fetch.min.bytes=1", "--command-config", "f"]
    assert consume(*REQUIRED, *more).exit_code == 0
    assert consume(*REQUIRED, "--group", "g", "--offset", "end").exit_code == 0
    assert consume(*REQUIRED, "--group", "g", "--partition", "0", "--offset", "stored").exit_code == 0
    source = ConsumerSource(
        bootstrap_server="h:1", isolation_level="read_uncommitted", command_config="f", config=(("fetch.min.bytes", "1"),)
    )
    limits = Limits(count=5, at_end=True, timeout_s=2.5)
    first, second, third = given
    assert (first.source, first.limits, first.topics, first.partitions) == (source, limits, ("t", "^u"), (3,))
    assert first.start == StartPosition(StartKind.BEFORE_END, 7)
    assert second.source == ConsumerSource(bootstrap_server="h:1", group="g", is_member=True, reset="latest", config=())
    assert (second.start, second.limits) == (END, Limits())
    assert third.source == ConsumerSource(bootstrap_server="h:1", group="g", is_member=False, config=())
    assert (third.start, third.partitions) == (STORED, (0,))


def test_what_a_record_looks_like(given: list[ConsumeOptions]) -> None:
    class Record:
        key, value, headers, timestamp = (lambda _: b"k"), (lambda _: None), (lambda _: None), (lambda _: (1, 5))
        topic, partition, offset = (lambda _: "t"), (lambda _: 0), (lambda _: 1)

    for more in ([], ["--key-only"], ["-f", "%o;", "--null", "-"], ["--null", "-"], ["--json"]):
        assert consume(*REQUIRED, *more).exit_code == 0
    shown = [each.render([Record()]) for each in given]  # type: ignore[list-item]
    assert shown[:4] == [b"\n", b"k\n", b"1;", b"-\n"]
    assert shown[4].startswith(b'{"topic": "t"')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option"),
        ([*REQUIRED, "--offset", "x"], "is none of beginning, end, stored"),
        ([*REQUIRED, "--offset", "stored"], "needs --group and --partition"),
        ([*REQUIRED, "--group", "g", "--offset", "5"], "begin at its committed offsets"),
        ([*REQUIRED, "--format", "%z"], "%z is none of"),
        ([*REQUIRED, "--format", "%k", "--json"], "choose one of"),
        ([*REQUIRED, "--key-only", "--json"], "choose one of"),
        ([*REQUIRED, "--count", "0"], "--count"),
        ([*REQUIRED, "--config", "x"], "write a setting as NAME=VALUE"),
    ],
)
def test_what_is_missing_or_wrong(arguments: list[str], words: str) -> None:
    result = consume(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def properties(**given: Any) -> dict[str, Any]:
    found = dict(consumer_properties(ConsumerSource(bootstrap_server="h:1", **given)))
    parse_properties(found)  # the consumer takes all of them
    return found


def test_without_a_group_nothing_is_committed() -> None:
    found = properties()
    assert (found["bootstrap.servers"], found["group.id"], found["enable.auto.commit"]) == ("h:1", "ottla-consume", "false")
    assert (found["enable.auto.offset.store"], found["enable.partition.eof"], found["auto.offset.reset"]) == (False, True, "earliest")
    assert properties(group="g", config=[("enable.auto.commit", "true")])["enable.auto.commit"] == "false"


def test_a_member_commits_what_is_stored() -> None:
    found = properties(group="g", is_member=True, reset="latest", isolation_level="read_uncommitted")
    assert "enable.auto.commit" not in found
    assert (found["group.id"], found["auto.offset.reset"], found["isolation.level"]) == ("g", "latest", "read_uncommitted")


def test_a_file_gives_way_to_single_settings(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\nfetch.min.bytes=7\nsession.timeout.ms=9000\ngroup.id=other\nacks=all\nkey.deserializer=org.a.B\n")
    found = properties(command_config=str(file), config=[("fetch.min.bytes", "8")])
    assert (found["client.id"], found["fetch.min.bytes"], found["session.timeout.ms"]) == ("mine", "8", "9000")
    assert found["group.id"] == "ottla-consume"
    assert not {"acks", "key.deserializer"} & found.keys()


@pytest.mark.parametrize("name", ["group.id", "bootstrap.servers", "enable.auto.offset.store", "enable.partition.eof"])
def test_what_other_options_decide(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} cannot be set by --config"):
        properties(config=[(name, "x")])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="NoSuchFileException"):
        properties(command_config=str(tmp_path / "none"))


PARTITIONS = [Partition("t", 0), Partition("t", 1)]


class Cluster:
    """Partitions of ten records each, one a second."""

    def get_watermark_offsets(self, _: Any, timeout: float | None = None) -> tuple[int, int]:
        return 3, 10

    def offsets_for_times(self, partitions: Any, timeout: float | None = None) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, each.offset // 1000) for each in partitions]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", BEGINNING),
        ("end", END),
        ("stored", STORED),
        ("0", StartPosition(StartKind.OFFSET, 0)),
        ("-5", StartPosition(StartKind.BEFORE_END, 5)),
        ("@1700000000000", StartPosition(StartKind.TIME, 1_700_000_000_000)),
        ("@2023-11-14T22:13:20.000", StartPosition(StartKind.TIME, 1_700_000_000_000)),
        ("@2023-11-14T23:13:20.000+01:00", StartPosition(StartKind.TIME, 1_700_000_000_000)),
    ],
)
def test_texts(text: str, start: StartPosition) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "x", "--1", "1.5", "9999999999999999999", "@", "@yesterday", "@-1", "١"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"is none of|write milliseconds"):
        parse_start(text)


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (BEGINNING, OFFSET_BEGINNING),
        (END, OFFSET_END),
        (STORED, OFFSET_STORED),
        (StartPosition(StartKind.OFFSET, 10), 10),
        (StartPosition(StartKind.OFFSET, 0), 0),
        (StartPosition(StartKind.BEFORE_END, 5), -2005),
        (StartPosition(StartKind.TIME, 7_000), 7),
    ],
)
def test_every_partition_has_its_offset(start: StartPosition, offset: int) -> None:
    found = assignments(PARTITIONS, start, Cluster(), timeout_s=1)
    assert [(each.topic, each.partition, each.offset) for each in found] == [("t", 0, offset), ("t", 1, offset)]


def test_an_offset_behind_the_end() -> None:
    with pytest.raises(CommandFailed, match="t-0 ends at offset 10: there is no offset 11 to begin at"):
        assignments(PARTITIONS, StartPosition(StartKind.OFFSET, 11), Cluster(), timeout_s=1)


class Record:
    """A message with everything that can be printed."""

    def __init__(self, key: bytes | None = b"k", value: bytes | None = b"v", headers: Any = None, timestamp: Any = (1, 17)) -> None:
        self.key, self.value, self.headers, self.timestamp = (lambda: key), (lambda: value), (lambda: headers), (lambda: timestamp)

    def topic(self) -> str:
        return "flüge"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 40


def test_every_letter() -> None:
    record = Record(b"key", b"\xff\x00", [("a", b"1"), ("b", None)])
    render = text_format(r"%t[%p]@%o %T %K:%k %S:%s (%h) 100%%\n")
    assert render([record]) == "flüge[2]@40 17 3:key 2:".encode() + b"\xff\x00 (a=1,b=) 100%\n"
    assert render([record, record]) == 2 * render([record])
    assert render([]) == b""


def test_null_is_nothing_or_a_text() -> None:
    record = Record(None, None, [("h", None)], (0, 0))
    assert text_format("%k|%s|%K|%S|%h|%T")([record]) == b"||-1|-1|h=|-1"
    assert text_format("%k|%s|%h", null=b"NULL")([record]) == b"NULL|NULL|h=NULL"


def test_escapes() -> None:
    assert text_format(r"\t\n\r\0\\\x25\x1e%s")([Record()]) == b"\t\n\r\0\\%\x1ev"


@pytest.mark.parametrize(
    ("text", "why"), [("%z", "%z is none of %t, %p"), (r"\q", r"\\q is none of"), ("\\", r"\\ is none of"), ("x%", "% is none of")]
)
def test_what_a_format_does_not_have(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        text_format(text)


def test_json() -> None:
    lines = json_lines([Record(), Record(None)]).splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["k", None]


class RecordReading:
    """A message of partition 0."""

    def __init__(self, offset: int) -> None:
        self.number = offset

    def value(self) -> bytes:
        return b"%d" % self.number

    def error(self) -> None:
        return None


def end(partition: int = 0) -> ErrorMessage:
    return ErrorMessage(KafkaError(KafkaError._PARTITION_EOF), "t", partition, 9)


class Consumer:
    """Gives one list of `batches` after the other, then calls `then`."""

    def __init__(self, batches: Sequence[Sequence[Any]], then: Callable[[], None]) -> None:
        self._batches = list(batches)
        self._then = then
        self.asked: list[int] = []
        self.stored: list[int] = []
        self._position = 0

    def consume(self, num_messages: int, timeout: float) -> Sequence[Any]:
        self.asked.append(num_messages)
        if not self._batches:
            self._then()
            return []
        batch = self._batches.pop(0)
        self._position += sum(isinstance(each, RecordReading) for each in batch)
        return batch

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0), TopicPartition("t", 1)]

    def position(self, partitions: Sequence[Any]) -> list[TopicPartition]:
        return [TopicPartition("t", 0, self._position), TopicPartition("t", 1, OFFSET_INVALID)]

    def store_offsets(self, *, offsets: Sequence[Any]) -> None:
        self.stored += [each.offset for each in offsets]


class Run:
    """One run, whose time passes by a second with each look at the clock."""

    def __init__(self, *batches: Sequence[Any], stores: bool = False, write: Callable[[bytes, StopRequest], None] | None = None) -> None:
        self.written: list[bytes] = []
        self.ends = PartitionEnds()
        self.ends.on_assign(None, [TopicPartition("t", 0)])
        self.stop = StopRequest()
        self.consumer = Consumer(batches, self._signal)
        self.err = io.StringIO()
        seconds = iter(range(10_000))
        self._reading = Reading(
            self.consumer,
            render=text_format(r"%s\n"),
            write=write or (lambda data, _: self.written.append(data)),
            ends=self.ends,
            progress=RecordProgress(self.err),
            stop=self.stop,
            stores=stores,
            clock=lambda: float(next(seconds)),
        )

    def _signal(self) -> None:
        self.stop.is_set = True

    def __call__(self, **limits: Any) -> "Run":
        self._reading.run(Limits(**limits))
        return self


def records(*offsets: int) -> list[RecordReading]:
    return [RecordReading(offset) for offset in offsets]


def test_records_are_printed_until_a_signal_comes() -> None:
    run = Run(records(0, 1), [], records(2))()
    assert run.written == [b"0\n1\n", b"2\n"]
    assert set(run.consumer.asked) == {BATCH}
    assert run.consumer.stored == []


def test_a_count_is_exact() -> None:
    run = Run(records(0, 1), records(2), records(3))(count=3)
    assert run.written == [b"0\n1\n", b"2\n"]
    assert run.consumer.asked == [3, 1]


def test_the_end_of_all_partitions() -> None:
    run = Run(records(0), [end()], records(1))
    run.ends.on_assign(None, [TopicPartition("t", 1)])
    assert run(at_end=True).written == [b"0\n", b"1\n"]  # partition 1 has not ended: a signal came
    run = Run([*records(0), end()], records(1))(at_end=True)
    assert run.written == [b"0\n"]
    assert Run([end()], records(1))().written == [b"1\n"]  # the end alone is no reason


def test_some_time_without_a_record() -> None:
    assert Run(records(0), [], [], [], records(1))(timeout_s=3.0).written == [b"0\n"]
    with pytest.raises(CommandFailed, match=r"1 of 2 records did not come within 3 s"):
        Run(records(0), [], [], [], records(1))(timeout_s=3.0, count=2)
    assert Run(records(0), records(1))(timeout_s=3.0, count=2).written == [b"0\n", b"1\n"]


def test_offsets_are_stored_when_records_are_written() -> None:
    run = Run(records(0, 1), records(2), stores=True)
    seen: list[list[int]] = []
    run._reading._write = lambda *_: seen.append(list(run.consumer.stored))
    run()
    assert seen == [[], [2]]
    assert run.consumer.stored == [2, 3]


@pytest.mark.parametrize("error", [BrokenPipeError, Stopped])
def test_what_is_not_written_is_not_stored(error: type[BaseException]) -> None:
    def refuse(*_: object) -> None:
        raise error

    run = Run(records(0), stores=True, write=refuse)
    with pytest.raises(error):
        run()
    assert run.consumer.stored == []


def test_errors_end_it_and_a_late_poll_does_not() -> None:
    late = ErrorMessage(KafkaError(KafkaError._MAX_POLL_EXCEEDED, "polled too late"))
    run = Run([late], records(0))()
    assert (run.written, run.err.getvalue()) == ([b"0\n"], "polled too late\n")
    failed = ErrorMessage(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "t-0 cannot be read"), "t", 0)
    run = Run([*records(0), failed], records(1))
    with pytest.raises(CommandFailed, match="t-0 cannot be read"):
        run()
    assert run.written == [b"0\n"]


def test_ends_follow_the_assignment() -> None:
    ends = PartitionEnds()
    assert not ends.are_reached  # nothing is assigned yet
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    ends.on_assign(None, both)
    ends.reach("t", 0)
    assert not ends.are_reached
    ends.on_revoke(None, both[1:])
    assert ends.are_reached
    ends.on_revoke(None, both[:1])
    assert not ends.are_reached
    ends.on_assign(None, both[:1])
    assert not ends.are_reached  # it is read again from the committed offset
    ends.reach("t", 0)
    assert ends.are_reached


DATA = bytes(range(256)) * 4_000


def test_a_file_gets_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        write_all(DATA, StopRequest(), out.fileno())
        write_all(b"", StopRequest(), out.fileno())
    assert (tmp_path / "out").read_bytes() == DATA


def test_a_pipe_gets_all_of_it_even_after_a_signal() -> None:
    reader, writer = os.pipe()
    stop = StopRequest()
    stop.is_set = True
    thread = threading.Thread(target=lambda: (write_all(DATA, stop, writer), os.close(writer)))
    thread.start()
    with os.fdopen(reader, "rb") as read:
        assert read.read() == DATA
    thread.join()


def test_a_pipe_that_no_program_reads_is_not_waited_for_after_a_signal() -> None:
    reader, writer = os.pipe()
    stop = StopRequest()
    stop.is_set = True
    with os.fdopen(reader), os.fdopen(writer), pytest.raises(Stopped):
        write_all(DATA, stop, writer)


def test_a_pipe_that_is_closed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb"), pytest.raises(BrokenPipeError):
        write_all(DATA, StopRequest(), writer)


TOPICS = {"flights": 3, "planes": 1, "__consumer_offsets": 50}


class RecordRun:
    def value(self) -> bytes:
        return b"v"

    def error(self) -> None:
        return None


class ConsumerRun:
    """A cluster with TOPICS; gives one record at each call."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties = properties
        self.assigned: list[TopicPartition] = []
        self.subscribed: list[str] = []
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        if topic is not None and topic not in TOPICS:
            return ClusterMetadata("", -1, {}, {topic: TopicMetadata(topic, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))})
        names = TOPICS if topic is None else [topic]
        return ClusterMetadata(
            "",
            -1,
            {},
            {name: TopicMetadata(name, {number: PartitionMetadata(number, 1) for number in range(TOPICS[name])}) for name in names},
        )

    def subscribe(self, topics: Sequence[str], on_assign: Any, on_revoke: Any) -> None:
        self.subscribed = list(topics)
        on_assign(self, [TopicPartition("flights", 0)])

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned = partitions

    def consume(self, num_messages: int, timeout: float) -> list[Any]:
        return [RecordRun()]

    def assignment(self) -> list[TopicPartition]:
        return []

    def position(self, partitions: Any) -> list[TopicPartition]:
        return []


class Result:
    """What a run did."""

    def __init__(self, *topics: str, write: Callable[..., None] | None = None, make: Any = ConsumerRun, **options: Any) -> None:
        made: list[Any] = []
        self.written: list[bytes] = []
        err = io.StringIO()
        source = ConsumerSource(bootstrap_server="h:1", group=options.get("group"), is_member="group" in options)
        options.pop("group", None)
        given = ConsumeOptions(
            source=source, topics=topics, render=text_format(r"%s\n"), limits=options.pop("limits", Limits(count=2)), **options
        )

        def make_consumer(properties: Mapping[str, Any]) -> Any:
            made.append(make(properties))
            return made[-1]

        self.status = run(
            given,
            write=write or (lambda data, _: self.written.append(data)),
            err=err,
            shows_progress=False,
            make_consumer=make_consumer,
            clock=lambda: 0.0,
        )
        self.err = err.getvalue()
        self.consumer = made[0] if made else None


def places(result: Result) -> list[tuple[str, int, int]]:
    assert result.consumer is not None
    return [(each.topic, each.partition, each.offset) for each in result.consumer.assigned]


def test_all_partitions_of_some_topics() -> None:
    result = Result("flights", "^pl")
    assert (result.status, result.err, result.written) == (0, "", [b"v\n", b"v\n"])
    assert places(result) == [*[("flights", number, OFFSET_BEGINNING) for number in range(3)], ("planes", 0, OFFSET_BEGINNING)]
    assert result.consumer is not None
    assert result.consumer.is_closed
    assert result.consumer.properties["bootstrap.servers"] == "h:1"


def test_some_partitions() -> None:
    assert places(Result("flights", partitions=[2, 0], start=END)) == [("flights", 2, OFFSET_END), ("flights", 0, OFFSET_END)]


def test_a_pattern_means_no_topics_of_the_brokers() -> None:
    assert {topic for topic, _, _ in places(Result("^.*"))} == {"flights", "planes"}


def test_a_member_subscribes() -> None:
    result = Result("flights", "^pl", group="g")
    assert result.consumer is not None
    assert (result.consumer.subscribed, result.consumer.assigned) == (["flights", "^pl"], [])


@pytest.mark.parametrize(
    ("topics", "options", "why"),
    [
        (["x"], {}, "topic x cannot be read: "),
        (["flights", "x"], {"group": "g"}, "topic x cannot be read: "),
        (["^x"], {}, "no topic matches"),
        (["^("], {}, "Failed to set subscription: "),
        (["flights"], {"partitions": [3]}, "topic flights has 3 partitions: there is no partition 3"),
    ],
)
def test_what_is_not_there(topics: list[str], options: dict[str, Any], why: str) -> None:
    result = Result(*topics, **options)
    assert result.status == 1
    assert result.err.startswith(f"Error: {why}")
    assert result.consumer is not None
    assert result.consumer.is_closed


def test_brokers_that_do_not_answer() -> None:
    class Unreachable(ConsumerRun):
        def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
            raise exception(KafkaError._TIMED_OUT, "Failed to get metadata")

    assert (Result("flights", make=Unreachable).status, Result("flights", make=Unreachable).err) == (
        1,
        "Error: Failed to get metadata: Local: Timed out\n",
    )


def test_brokers_that_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ConsumerRun):
        def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
            while not said:
                time.sleep(0.001)
            return super().list_topics(topic, timeout)

        def consume(self, num_messages: int, timeout: float) -> list[Any]:
            self.properties["error_cb"](KafkaError(KafkaError._TRANSPORT, "h:1: refused"))
            self.properties["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
            return super().consume(num_messages, timeout)

    said: list[str] = []
    monkeypatch.setattr(run_module, "SILENT_S", 0)
    monkeypatch.setattr(RecordProgress, "say", lambda self, text: said.append(text))
    assert Result("flights", make=Slow, limits=Limits(count=1)).status == 0
    assert said == ["waiting for the brokers at h:1", "1/1 brokers are down: waiting for one of them (Ctrl-C ends)"]


def test_names_that_are_not_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        Result("flights", "a\udcff")
    group = Result("flights", group="a\udcff", make=OwnConsumer)
    assert (group.status, group.err) == (1, "Error: Failed to create consumer: group.id must be text in UTF-8, not 'a\\udcff'\n")


@pytest.mark.parametrize("error", [BrokenPipeError, Stopped])
def test_an_output_that_is_closed_and_a_signal_end_it_without_an_error(error: type[BaseException]) -> None:
    def write(*_: object) -> None:
        raise error

    result = Result("flights", write=write)
    assert (result.status, result.err) == (0, "")
    assert result.consumer is not None
    assert result.consumer.is_closed
