"""Read topics from their beginning, without a group and without a client library: every committed record that was appended."""

from collections.abc import Iterator
from functools import partial
from heapq import merge
from types import TracebackType
from typing import Final, NamedTuple, Self

from ottla.client.admin.client import AdminClient
from ottla.client.errors import UnknownTopicError
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.history.story.sentences import counted
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import CommittedRecords
from ottla.testing.waiting import HIDE_FAILURES, NotYet, wait_until, wait_until_in_threads
from ottla.text import did_you_mean

__tracebackhide__ = HIDE_FAILURES

_SHOWN_MAX: Final = 10
_SHOWN_CHARS_MAX: Final = 100


class ConsumedRecord(NamedTuple):
    """A record as it was read; `timestamp_ms` is milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


def consume(bootstrap_servers: str, topic: str, count: int, *, timeout: float) -> list[ConsumedRecord]:
    """The first `count` records of a topic, as soon as it has so many; it may be created meanwhile.

    Raises AssertionError with what the topic has after `timeout` seconds.
    """
    with TopicReader(bootstrap_servers, topic) as reader:
        wait_until(partial(_has, reader, count), partial(_wanted, reader, count), seconds=timeout)
        return reader.records[:count]


async def consume_async(bootstrap_servers: str, topic: str, count: int, *, timeout: float) -> list[ConsumedRecord]:
    """`consume` for coroutines: the event loop runs meanwhile."""
    with TopicReader(bootstrap_servers, topic) as reader:
        await wait_until_in_threads(partial(_has, reader, count), partial(_wanted, reader, count), seconds=timeout)
        return reader.records[:count]


def read_topic(bootstrap_servers: str, topic: str) -> list[ConsumedRecord]:
    """Every record that a topic has now. Raises NotYet when there is no such topic."""
    with TopicReader(bootstrap_servers, topic) as reader:
        try:
            reader.read()
        except UnknownTopicError as unknown:
            raise NotYet(f"{unknown}{did_you_mean(topic, reader.topics())}") from unknown
        return reader.records


class TopicReader:
    """Reads one topic; `records` are those that `read` has found so far. `exists`: it was there."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.exists = False
        settings = ClientSettings(bootstrap_servers=bootstrap_servers, client_id="ottla-testing", retry_backoff_ms=20)
        self._admin = AdminClient(settings)
        self._fetcher = Fetcher(settings)
        self._positions: dict[int, int] = {}
        self._committed: dict[int, CommittedRecords] = {}
        self._found: dict[int, list[Record]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._fetcher.close()
        self._admin.close()

    @property
    def records(self) -> list[ConsumedRecord]:
        """The records of all partitions: each partition's by offset, and between partitions by timestamp."""
        return list(merge(*map(self._of_partition, sorted(self._found)), key=lambda record: record.timestamp_ms))

    def topics(self) -> list[str]:
        """The topics that there are."""
        return list(self._admin.list_topics())

    def read(self) -> None:
        """Read what was appended since. Raises UnknownTopicError."""
        ranges = topic_ranges(self._admin, self.topic, positions=self._positions)
        self.exists = True
        for fetched in self._fetcher.read([each for each in ranges if each.start < each.end]):
            number = fetched.partition.partition
            committed, found = self._committed.setdefault(number, CommittedRecords()), self._found.setdefault(number, [])
            for at, header in split_batches(fetched.records):
                if header.last_offset < fetched.position or header.base_offset >= fetched.next_offset:
                    continue  # beside the range that was asked for
                found += committed.read(fetched.records[at : at + header.size_bytes], header)
            self._positions[number] = fetched.next_offset

    def _of_partition(self, number: int) -> Iterator[ConsumedRecord]:
        for record in self._found[number]:
            yield ConsumedRecord(self.topic, number, record.offset, record.timestamp_ms, record.key, record.value, record.headers)


def _has(reader: TopicReader, count: int) -> bool:
    try:
        reader.read()
    except UnknownTopicError:
        return False
    return len(reader.records) >= count


def _wanted(reader: TopicReader, count: int) -> str:
    return f"{counted(count, 'record')} in topic {reader.topic}: {_shown(reader)}"


def _shown(reader: TopicReader) -> str:
    if not reader.exists:
        return f"there is no such topic{did_you_mean(reader.topic, reader.topics())}"
    records = reader.records
    values = ", ".join(repr(record.value)[:_SHOWN_CHARS_MAX] for record in records[:_SHOWN_MAX])
    return f"it has {len(records)}" + (f": {values}{', ...' if len(records) > _SHOWN_MAX else ''}" if records else "")
