"""`ottla consume`: reads records with a consumer, and prints them as kcat does or as JSON, until there is a reason to end.

Offsets are stored for the next commit when their records are written: records are printed at least once. kcat's `-f` (format.c): %t topic,
%p partition, %o offset, %k key, %K its bytes, %s value, %S its bytes, %T timestamp, %h headers.
"""

import os
import re
import select
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TextIO

from ottla.cli.clusters import CommandFailed, read_client_properties
from ottla.cli.groups.options import parse_datetime_ms
from ottla.cli.records import ReadMessage, RecordProgress, to_json
from ottla.cli.signals import Stopped, StopRequest
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.conversions import split_topics
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.message import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, TopicPartition
from ottla.client.engine.engine import TAIL_BASE
from ottla.config.client_properties import OWN
from ottla.protocol.model import TopicPartition as Partition
from ottla.text import printable

CLIENT_ID: Final = "ottla-consume"
NO_GROUP: Final = "ottla-consume"
"""The group's name where there is none; no request has it."""
_FROM_OPTIONS: Final = frozenset({"group.id", "group.protocol", "on_commit", "enable.partition.eof", "enable.auto.offset.store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSource:
    """The cluster, the group (None: partitions are assigned) and how records are read. `config`: what `--config` gives."""

    bootstrap_server: str
    group: str | None = None
    is_member: bool = False
    reset: str = "earliest"
    isolation_level: str | None = None
    protocol: str | None = None
    command_config: str | None = None
    config: Sequence[tuple[str, str]] = field(default=())


def consumer_properties(source: ConsumerSource) -> Mapping[str, Any]:
    """Properties for `ottla.Consumer`. Raises CommandFailed for a file that cannot be read, ValueError for what options decide."""
    given = dict(source.config)
    for name in sorted(given.keys() & (_FROM_OPTIONS | {"bootstrap.servers"})):
        raise ValueError(f"{name} cannot be set by --config: it follows from the other options")
    in_file = {} if source.command_config is None else read_client_properties(source.command_config, *(OWN - _FROM_OPTIONS))
    properties = {"client.id": CLIENT_ID, "auto.offset.reset": source.reset, **in_file, **given}
    properties |= {"bootstrap.servers": source.bootstrap_server, "group.id": source.group or NO_GROUP}
    if source.protocol is not None:
        properties["group.protocol"] = source.protocol
    if source.isolation_level is not None:
        properties["isolation.level"] = source.isolation_level
    if not source.is_member:
        properties["enable.auto.commit"] = "false"
    # What is printed is stored for the next commit, and not before.
    return properties | {"enable.auto.offset.store": False, "enable.partition.eof": True}


_NUMBER_MAX: Final = 2**62


class StartKind(Enum):
    """What the number of a `StartPosition` means."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "an offset"
    BEFORE_END = "so many records before the end"
    TIME = "the first record at or after a time"


class StartPosition(NamedTuple):
    """Where to begin. `number`: an offset, a count of records, or milliseconds since 1970."""

    kind: StartKind
    number: int = 0


BEGINNING: Final = StartPosition(StartKind.BEGINNING)
END: Final = StartPosition(StartKind.END)
STORED: Final = StartPosition(StartKind.STORED)
_WORDS: Final = {"beginning": BEGINNING, "end": END, "stored": STORED}


class Lookup(Protocol):
    """What of a consumer this asks."""

    def offsets_for_times(self, partitions: Sequence[Any], timeout: float | None = None) -> list[TopicPartition]: ...
    def get_watermark_offsets(self, partition: Any, timeout: float | None = None) -> tuple[int, int] | None: ...


def parse_start(text: str) -> StartPosition:
    """A start from beginning, end, stored, N, -N or @TIMESTAMP. Raises ValueError with a sentence."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("@"):
        return StartPosition(StartKind.TIME, _time_ms(text[1:]))
    if not re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII) or abs(int(text)) > _NUMBER_MAX:
        raise ValueError(f"{text!r} is none of beginning, end, stored, N, -N and @TIMESTAMP")
    number = int(text)
    return StartPosition(StartKind.BEFORE_END, -number) if text.startswith("-") else StartPosition(StartKind.OFFSET, number)


def _time_ms(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    try:
        return parse_datetime_ms(text)
    except CommandFailed as error:
        raise ValueError(f"@{text}: write milliseconds since 1970 or YYYY-MM-DDThh:mm:ss.sss (UTC, or with a zone as +02:00)") from error


def assignments(partitions: Sequence[Partition], start: StartPosition, lookup: Lookup, *, timeout_s: float) -> list[TopicPartition]:
    """Every partition with the offset to begin at. Raises CommandFailed for an offset behind the end, and what `lookup` raises."""
    match start.kind:
        case StartKind.TIME:
            return lookup.offsets_for_times([TopicPartition(*each, start.number) for each in partitions], timeout_s)
        case StartKind.OFFSET:
            return [_at_offset(each, start.number, lookup, timeout_s) for each in partitions]
        case StartKind.BEFORE_END:
            offset = TAIL_BASE - start.number
        case StartKind.BEGINNING:
            offset = OFFSET_BEGINNING
        case StartKind.END:
            offset = OFFSET_END
        case StartKind.STORED:
            offset = OFFSET_STORED
    return [TopicPartition(*each, offset) for each in partitions]


def _at_offset(partition: Partition, offset: int, lookup: Lookup, timeout_s: float) -> TopicPartition:
    """The offset itself: one below the log start is reset by the consumer, to the first record."""
    found = lookup.get_watermark_offsets(TopicPartition(*partition), timeout_s)
    assert found is not None
    if offset > found[1]:
        raise CommandFailed(f"{partition.topic}-{partition.partition} ends at offset {found[1]}: there is no offset {offset} to begin at")
    return TopicPartition(*partition, offset)


Render = Callable[[Sequence[ReadMessage]], bytes]
"""What records look like on stdout."""

_PIECE: Final = re.compile(r"%(?P<letter>.?)|\\(?P<escape>x[0-9a-fA-F]{1,2}|.?)|(?P<literal>[^%\\]+)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_NOT_THERE: Final = b"-1"
"""The size of a key or value that is null."""


def json_lines(records: Sequence[ReadMessage]) -> bytes:
    """One JSON object a line."""
    return b"".join([to_json(record).encode() + b"\n" for record in records])


def text_format(text: str, *, null: bytes = b"") -> Render:
    """A format of kcat's; `null` stands for keys and values that are null. Raises ValueError for a letter that it does not have."""
    template, getters = b"", []
    known = _getters(null)
    for found in _PIECE.finditer(text):
        piece = found[found.lastgroup or 0]
        if found.lastgroup == "literal":
            template += piece.encode().replace(b"%", b"%%")
        elif found.lastgroup == "escape":
            template += _escaped(piece)
        elif piece == "%":
            template += b"%%"
        elif piece in known:
            template += b"%b"
            getters.append(known[piece])
        else:
            raise ValueError(f"%{piece} is none of %{', %'.join(known)} and %%")
    return lambda records: b"".join([template % tuple([get(record) for get in getters]) for record in records])


def _escaped(escape: str) -> bytes:
    if escape.startswith("x") and len(escape) > 1:
        return bytes([int(escape[1:], 16)]).replace(b"%", b"%%")
    if escape not in _ESCAPES:
        raise ValueError(f"\\{escape} is none of \\n, \\t, \\r, \\0, \\\\ and \\xHH")
    return _ESCAPES[escape]


def _getters(null: bytes) -> dict[str, Callable[[ReadMessage], bytes]]:
    def key(record: ReadMessage) -> bytes:
        found = record.key()
        return null if found is None else found

    def value(record: ReadMessage) -> bytes:
        found = record.value()
        return null if found is None else found

    def headers(record: ReadMessage) -> bytes:
        return b",".join([name.encode() + b"=" + (null if found is None else found) for name, found in record.headers() or ()])

    return {
        "t": lambda record: (record.topic() or "").encode(),
        "p": lambda record: b"%d" % (record.partition() or 0),
        "o": lambda record: b"%d" % (record.offset() or 0),
        "k": key,
        "K": lambda record: _size(record.key()),
        "s": value,
        "S": lambda record: _size(record.value()),
        "T": _time,
        "h": headers,
    }


def _size(data: bytes | None) -> bytes:
    return _NOT_THERE if data is None else b"%d" % len(data)


def _time(record: ReadMessage) -> bytes:
    kind, time_ms = record.timestamp()
    return b"%d" % time_ms if kind else _NOT_THERE


BATCH: Final = 10_000
WAIT_S: Final = 0.1
"""How long a signal or the end of a topic may have to wait."""


Write = Callable[[bytes, StopRequest], None]
"""Writes all of the bytes; may raise Stopped once a signal has come."""


class ReadingConsumer(Protocol):
    """What of a consumer this uses."""

    def consume(self, num_messages: int, timeout: float) -> Sequence[Any]: ...
    def assignment(self) -> list[TopicPartition]: ...
    def position(self, partitions: Sequence[Any]) -> list[TopicPartition]: ...
    def store_offsets(self, *, offsets: Sequence[Any]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to end: after `count` records, at the ends of all partitions, after so many seconds without a record. None: not by this."""

    count: int | None = None
    at_end: bool = False
    timeout_s: float | None = None


class PartitionEnds:
    """Which of the assigned partitions have been read to their ends. A listener of the assignment."""

    def __init__(self) -> None:
        self._assigned: set[tuple[str, int]] = set()
        self._ended: set[tuple[str, int]] = set()

    def on_assign(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """These are assigned, beside what is already there."""
        self._assigned |= {(each.topic, each.partition) for each in partitions}

    def on_revoke(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """These are not assigned any more."""
        gone = {(each.topic, each.partition) for each in partitions}
        self._assigned -= gone
        self._ended -= gone

    def reach(self, topic: str, partition: int) -> None:
        """The end of a partition."""
        self._ended.add((topic, partition))

    @property
    def are_reached(self) -> bool:
        """Whether all that is assigned has been read. A member without partitions may get some in the next rebalance."""
        return bool(self._assigned) and self._assigned <= self._ended


class Reading:
    """One run. `stores`: offsets are stored, since the group's member commits them."""

    def __init__(
        self,
        consumer: ReadingConsumer,
        *,
        render: Render,
        write: Write,
        ends: PartitionEnds,
        progress: RecordProgress,
        stop: StopRequest,
        stores: bool,
        clock: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._render = render
        self._write = write
        self._ends = ends
        self._progress = progress
        self._stop = stop
        self._stores = stores
        self._clock = clock

    def run(self, limits: Limits) -> None:
        """Read until a signal or a limit. Raises CommandFailed, KafkaException, Stopped, and BrokenPipeError when the output is closed."""
        left = limits.count
        last_s = self._clock()
        while not self._stop.is_set and left != 0:
            messages = self._consumer.consume(BATCH if left is None else min(left, BATCH), WAIT_S)
            records = [each for each in messages if each.error() is None]
            if records:
                self._print(records)
                last_s = self._clock()
                left = None if left is None else left - len(records)
            if len(records) < len(messages):
                self._on_events([each for each in messages if each.error() is not None])
            if limits.at_end and self._ends.are_reached:
                return
            if limits.timeout_s is not None and self._clock() - last_s >= limits.timeout_s:
                if left:
                    raise CommandFailed(f"{left:,} of {limits.count:,} records did not come within {limits.timeout_s:g} s")
                return

    def _print(self, records: Sequence[Any]) -> None:
        behind = self._consumer.position(self._consumer.assignment()) if self._stores else ()
        data = self._render(records)
        self._write(data, self._stop)
        self._progress.add(len(records), len(data))
        known = [each for each in behind if each.offset >= 0]
        if known:
            self._consumer.store_offsets(offsets=known)

    def _on_events(self, events: Sequence[Any]) -> None:
        for event in events:
            error = event.error()
            if error.code() == KafkaError._PARTITION_EOF:
                self._ends.reach(event.topic(), event.partition())
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                self._progress.say(error.str())
            else:
                raise CommandFailed(error.str())


STDOUT: Final = 1
_WAIT_MS: Final = 100
_PIPE_BYTES: Final = select.PIPE_BUF
"""What a pipe that is ready takes without waiting (POSIX)."""


def write_all(data: bytes, stop: StopRequest, descriptor: int = STDOUT) -> None:
    """Write all of it, without a buffer that would be written later.

    Raises Stopped when a signal has come and the other side of a pipe does not read, and BrokenPipeError when that is closed.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    chunk = len(data) if stat.S_ISREG(os.fstat(descriptor).st_mode) else _PIPE_BYTES
    left = memoryview(data)
    while left:
        if poll.poll(_WAIT_MS):
            left = left[os.write(descriptor, left[:chunk]) :]
        elif stop.is_set:
            raise Stopped


LOOKUP_S: Final = 15.0
"""How long a request at the start may take."""
SILENT_S: Final = 3.0
"""How long it may take without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """`partitions`: assigned without a group's help, where there are some or no group."""

    source: ConsumerSource
    topics: Sequence[str]
    render: Render
    partitions: Sequence[int] = ()
    start: StartPosition = BEGINNING
    limits: Limits = field(default_factory=Limits)


def run(
    options: ConsumeOptions,
    *,
    write: Write,
    err: TextIO,
    shows_progress: bool,
    make_consumer: Callable[[Mapping[str, Any]], Consumer] = Consumer,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Print records until a limit, a signal, or the end of the pipe that they are written to; the exit status: 1 after an error, else 0."""
    progress = RecordProgress(err, is_shown=shows_progress, clock=clock)
    problem: str | None = None

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            progress.say(f"{error.str()}: waiting for one of them (Ctrl-C ends)")

    waiting = threading.Timer(SILENT_S, progress.say, [f"waiting for the brokers at {printable(options.source.bootstrap_server)}"])
    waiting.daemon = True
    try:
        with make_consumer({**consumer_properties(options.source), "error_cb": on_error}) as consumer:
            ends = PartitionEnds()
            waiting.start()
            try:
                _begin(consumer, options, ends)
            finally:
                waiting.cancel()
            # Before this, a signal ends the process at once, and so does one while the consumer is closed.
            with StopRequest() as stop:
                reading = Reading(
                    consumer,
                    render=options.render,
                    write=write,
                    ends=ends,
                    progress=progress,
                    stop=stop,
                    stores=options.source.is_member,
                    clock=clock,
                )
                reading.run(options.limits)
    except UnicodeEncodeError:
        raise  # a name that is no text, which the program says
    except (CommandFailed, ValueError) as error:
        problem = str(error)
    except KafkaException as error:
        problem = error.args[0].str()
    except (BrokenPipeError, Stopped):
        pass  # what was not written is not committed either
    finally:
        progress.end()
    if problem is not None:
        err.write(f"Error: {problem}\n")
    return 0 if problem is None else 1


def _begin(consumer: Consumer, options: ConsumeOptions, ends: PartitionEnds) -> None:
    topics = _topics(consumer, options.topics)
    if options.source.is_member:
        consumer.subscribe(list(options.topics), on_assign=ends.on_assign, on_revoke=ends.on_revoke)
        return
    partitions = _partitions(topics, options.partitions)
    starts = assignments(partitions, options.start, consumer, timeout_s=LOOKUP_S)
    consumer.assign(starts)
    ends.on_assign(consumer, starts)


def _topics(consumer: Consumer, given: Sequence[str]) -> dict[str, list[int]]:
    """The topics that are there now, with their partitions. Raises CommandFailed where a named one is not, or a pattern finds none."""
    named, patterns = split_topics(list(given))
    found: dict[str, list[int]] = {}
    for name in named:
        topic = consumer.list_topics(name, LOOKUP_S).topics[name]
        if topic.error is not None:
            raise CommandFailed(f"topic {printable(name)} cannot be read: {topic.error.str()}")
        found[name] = sorted(topic.partitions)
    if patterns:
        for name, topic in consumer.list_topics(timeout=LOOKUP_S).topics.items():
            # As in a subscription: the topics of brokers are not meant.
            if not name.startswith("__") and any(pattern.match(name) for pattern in patterns):
                found[name] = sorted(topic.partitions)
    return found


def _partitions(topics: Mapping[str, Sequence[int]], wanted: Sequence[int]) -> list[Partition]:
    if not topics:
        raise CommandFailed("no topic matches")
    for name, numbers in topics.items():
        for number in wanted:
            if number not in numbers:
                raise CommandFailed(f"topic {printable(name)} has {len(numbers)} partitions: there is no partition {number}")
    return [Partition(name, number) for name, numbers in topics.items() for number in wanted or numbers]
