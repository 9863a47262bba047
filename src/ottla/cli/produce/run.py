"""One run of `ottla produce`, from its options to its exit status. It needs confluent-kafka."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

from confluent_kafka import KafkaException, Producer

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.produce.properties import Target, producer_properties
from ottla.cli.produce.records import LineFormat, records
from ottla.cli.produce.writing import Writing
from ottla.cli.record_progress import RecordProgress
from ottla.cli.signals import Stopped, raising_stopped
from ottla.core.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """`partition` None: where the partitioner puts each record."""

    target: Target
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
