"""One run of `ottla consume`, from its options to its exit status."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from ottla.cli.consume.formats import Render
from ottla.cli.consume.properties import Source, consumer_properties
from ottla.cli.consume.reading import Ends, Limits, Reading, Write
from ottla.cli.consume.starts import BEGINNING, Start, assignments
from ottla.cli.groups.failures import CommandFailed
from ottla.cli.record_progress import RecordProgress
from ottla.cli.signals import Stopped, StopRequest
from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.kafka_errors import KafkaException
from ottla.client.consumer.patterns import split_topics
from ottla.core.model import TopicPartition
from ottla.core.text import printable

LOOKUP_S: Final = 15.0
"""How long a request at the start may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """`partitions`: assigned without a group's help, where there are some or no group."""

    source: Source
    topics: Sequence[str]
    render: Render
    partitions: Sequence[int] = ()
    start: Start = BEGINNING
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
    try:
        with make_consumer(consumer_properties(options.source)) as consumer:
            ends = Ends()
            _begin(consumer, options, ends)
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


def _begin(consumer: Consumer, options: ConsumeOptions, ends: Ends) -> None:
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


def _partitions(topics: Mapping[str, Sequence[int]], wanted: Sequence[int]) -> list[TopicPartition]:
    if not topics:
        raise CommandFailed("no topic matches")
    for name, numbers in topics.items():
        for number in wanted:
            if number not in numbers:
                raise CommandFailed(f"topic {printable(name)} has {len(numbers)} partitions: there is no partition {number}")
    return [TopicPartition(name, number) for name, numbers in topics.items() for number in wanted or numbers]
