"""`ottla produce`: writes lines of a file or a pipe as records through confluent-kafka, and counts which were acknowledged."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TextIO

from confluent_kafka import KafkaException, Producer

from ottla.cli.clusters import CommandFailed, read_client_properties
from ottla.cli.records import Headers, RecordProgress, RecordToWrite, from_json
from ottla.cli.signals import Stopped, raising_stopped
from ottla.client.security.properties import parse_security, to_librdkafka
from ottla.text import printable

_FROM_OPTIONS: Final = frozenset({"bootstrap.servers", "metadata.broker.list", "delivery.timeout.ms", "message.timeout.ms"})
DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "ottla-produce",
    "enable.idempotence": True,
    # The partition of a key as Java's producers choose it.
    "partitioner": "murmur2_random",
    # Failures are reported by this command.
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTarget:
    """The cluster, and how records are written. `config`: what `--config` gives, by librdkafka's names."""

    bootstrap_server: str
    timeout_s: float = 30.0
    compression: str | None = None
    command_config: str | None = None
    config: Sequence[tuple[str, str]] = field(default=())


def producer_properties(target: ProducerTarget) -> dict[str, Any]:
    """Properties for confluent_kafka.Producer. Raises CommandFailed for a file that makes no sense, ValueError for what options decide."""
    given = dict(target.config)
    for name in sorted(given.keys() & _FROM_OPTIONS):
        raise ValueError(f"{name} cannot be set by --config: it follows from the other options")
    properties = dict(DEFAULTS)
    if target.command_config is not None:
        in_file = read_client_properties(target.command_config)
        try:
            properties |= to_librdkafka(parse_security(in_file))
        except ValueError as error:
            raise CommandFailed(f"{target.command_config}: {error}") from error
        if "client.id" in in_file:
            properties["client.id"] = in_file["client.id"]
    properties |= given
    if target.compression is not None:
        properties["compression.type"] = target.compression
    return properties | {"bootstrap.servers": target.bootstrap_server, "delivery.timeout.ms": max(int(target.timeout_s * 1000), 1)}


_NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """What a line means: a value; key and value around `key_delimiter`; or a JSON object. `null`: a key or value that is null.

    `headers` are those of every record.
    """

    key_delimiter: bytes | None = None
    null: bytes | None = None
    is_json: bool = False
    headers: Headers = ()


def records(lines: Iterable[bytes], form: LineFormat) -> Iterator[tuple[int, RecordToWrite]]:
    """Each line's number, from 1, and its record. Raises CommandFailed for a line that is none."""
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(_NEWLINE)
        try:
            yield number, _from_json(text, form) if form.is_json else _from_text(text, form)
        except ValueError as error:
            raise CommandFailed(f"line {number}: {error}") from error


def _from_json(text: bytes, form: LineFormat) -> RecordToWrite:
    record = from_json(text)
    return record._replace(headers=[*form.headers, *record.headers]) if form.headers else record


def _from_text(text: bytes, form: LineFormat) -> RecordToWrite:
    key: bytes | None = None
    value: bytes | None = text
    if form.key_delimiter is not None:
        key, delimiter, value = text.partition(form.key_delimiter)
        if not delimiter:
            raise ValueError(f"it has no key delimiter {form.key_delimiter.decode()!r}")
    if form.null is not None:
        key, value = (None if each == form.null else each for each in (key, value))
    return RecordToWrite(key, value, form.headers)


_WAIT_S: Final = 0.1
_SHOWN_MAX: Final = 5
"""How many failures are reported one by one."""


class Writing:
    """Records of one run into `topic`; `partition` None: where the partitioner puts each."""

    def __init__(self, producer: Any, topic: str, *, partition: int | None, progress: RecordProgress) -> None:
        self.failed = 0
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._progress = progress
        self._queued = 0

    @property
    def written(self) -> int:
        """How many were acknowledged; correct after `finish`."""
        return self._queued - self.failed

    def write(self, numbered: Iterable[tuple[int, RecordToWrite]]) -> None:
        """Queue records, waiting while the queue is full."""
        for number, record in numbered:
            self._queue(number, record)
            self._producer.poll(0)
            self._progress.add(1, len(record.value or b"") + len(record.key or b""))

    def finish(self) -> None:
        """Wait until each record is acknowledged or has failed, which its timeout bounds."""
        while self._producer.flush(1.0):
            continue

    def _queue(self, number: int, record: RecordToWrite) -> None:
        arguments = {"partition": self._partition, "timestamp": record.timestamp_ms}
        given = {name: value for name, value in arguments.items() if value is not None}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=partial(self._delivered, number),
                    **given,
                )
            except BufferError:
                self._producer.poll(_WAIT_S)
                continue
            except KafkaException as error:
                self.fail(number, error.args[0].str())
            self._queued += 1
            return

    def fail(self, number: int, why: str) -> None:
        """A record was not written."""
        self.failed += 1
        if self.failed <= _SHOWN_MAX:
            self._progress.say(f"Error: line {number} was not written: {why}")

    def _delivered(self, number: int, error: Any, _message: Any) -> None:
        if error is not None:
            self.fail(number, error.str())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """`partition` None: where the partitioner puts each record."""

    target: ProducerTarget
    topic: str
    form: LineFormat = field(default_factory=LineFormat)
    partition: int | None = None


def run(
    options: ProduceOptions,
    lines: Iterable[bytes],
    *,
    out: TextIO,
    err: TextIO,
    shows_progress: bool,
    make_producer: Callable[[dict[str, Any]], Any] = Producer,
) -> int:
    """Write every line; the exit status: 1 if a record was not written or a line is none, else 0. A signal ends the reading."""
    progress = RecordProgress(err, is_shown=shows_progress)
    said: set[int] = set()

    def on_error(error: Any) -> None:
        """Of each kind the first: librdkafka reports every attempt to connect."""
        if error.code() not in said:
            said.add(error.code())
            progress.say(error.str())

    try:
        producer = make_producer({**producer_properties(options.target), "error_cb": on_error})
    except (CommandFailed, ValueError) as error:
        progress.say(f"Error: {error}")
        return 1
    except KafkaException as error:
        progress.say(f"Error: {error.args[0].str()}")
        return 1
    writing = Writing(producer, options.topic, partition=options.partition, progress=progress)
    problem = _write_all(writing, lines, options.form)
    writing.finish()
    progress.end()
    if problem is not None:
        progress.say(f"Error: {problem}")
    if writing.failed:
        progress.say(f"Error: {writing.failed:,} records were not written")
    out.write(f"{writing.written:,} records written to {printable(options.topic)}\n")
    return 1 if problem is not None or writing.failed else 0


def _write_all(writing: Writing, lines: Iterable[bytes], form: LineFormat) -> str | None:
    """Queue records until there is no line left, or a signal comes; what made a line no record."""
    try:
        with raising_stopped():
            writing.write(records(lines, form))
    except Stopped:
        return None
    except CommandFailed as problem:
        return str(problem)
    except OSError as error:
        return f"the input cannot be read: {error.strerror or error}"
    return None
