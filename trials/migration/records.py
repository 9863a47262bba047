"""The records of a trial: each says of which stream it is, and its number there; and what topics and groups hold, read back.

A stream is a key, or the records without a key of one source partition: what is lost, doubled or out of order shows. There are frequent
keys and rare ones, short values and long ones, tombstones, empty values, headers (names twice, without a value, not ASCII), and times that
go back now and then.

Reading is done with confluent-kafka: committed records only, each partition from its beginning to its end. It shares no code with what
`ottla migrate` reads and writes with.
"""

import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

SOURCE_HEADER: Final = "ottla.migrate.source"
MARK_HEADER: Final = "trial.mark"
FIRST_TIME_MS: Final = 1_700_000_000_000
RECORDS_A_KEY: Final = 20
PADDING: Final = b"0123456789abcdef" * 512
HEADERS_EVERY: Final = 16
LONG_VALUE_EVERY: Final = 500
LATE_MS_MAX: Final = 2_000

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record as it is written (offset -1) or read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class Stream(NamedTuple):
    """Records whose order is checked: the key (None: those without one) and the partition of the source."""

    name: bytes
    key: bytes | None
    partition: int


class RecordMaker:
    """Makes records as a seed decides; `written` has the number of records by stream. `prefix` is that of the names of its streams."""

    def __init__(self, seed: int, *, partitions: int, keys: int, partitioner: str = "murmur2", prefix: bytes = b"k") -> None:
        self.written: dict[bytes, int] = {}
        self._random = random.Random(seed)
        choose = PARTITIONERS[partitioner]
        names = [prefix + b"%d" % number for number in range(keys)]
        self._streams = [Stream(name, name, choose(name, partitions)) for name in names]
        odd = [prefix[:0], prefix + b"\xff\x00\xfe"] if prefix == b"k" else []
        frequent = [Stream(name, name, choose(name, partitions)) for name in odd]
        frequent += [Stream(no_key(prefix, partition), None, partition) for partition in range(partitions)]
        # One record in ten has no key or an odd one; one in fifty the first key.
        self._streams += frequent
        weights = [keys / 50.0, *[1.0] * (keys - 1), *[keys / 9 / len(frequent)] * len(frequent)]
        self._weights = list(accumulate(weights))
        self._made = 0

    def make(self, count: int) -> list[Record]:
        """The next records, in the order in which those of a stream are to be written."""
        return [self._record(stream) for stream in self._random.choices(self._streams, cum_weights=self._weights, k=count)]

    def _record(self, stream: Stream) -> Record:
        number = self.written.get(stream.name, 0)
        self.written[stream.name] = number + 1
        self._made += 1
        mark = b"%b:%d" % (stream.name, number)
        time_ms = FIRST_TIME_MS + self._made - (self._made * 7_919 % LATE_MS_MAX if self._made % 7 == 0 else 0)
        if self._made % HEADERS_EVERY == 0:
            return Record(stream.partition, -1, stream.key, *_with_headers(mark, self._made // HEADERS_EVERY, time_ms))
        size = len(PADDING) if self._made % LONG_VALUE_EVERY == 0 else self._made * 31 % 150
        return Record(stream.partition, -1, stream.key, mark + b";" + PADDING[:size], time_ms, ())


def no_key(prefix: bytes, partition: int) -> bytes:
    """The name of the stream of a partition's records without a key."""
    return b"%b without a key in %d" % (prefix, partition)


def mark_of(record: Record) -> tuple[bytes, int] | None:
    """The stream of a record and its number there; None for a record that no RecordMaker has made."""
    mark = record.value.partition(b";")[0] if record.value else dict(record.headers).get(MARK_HEADER)
    name, colon, number = (mark or b"").rpartition(b":")
    return (name, int(number)) if colon and number.isdigit() else None


def copied(record: Record, topic: str, partition: int) -> Record:
    """What a migration writes for a record of `topic`."""
    source = f"{topic}:{record.partition}:{record.offset}".encode()
    return record._replace(partition=partition, offset=-1, headers=(*record.headers, (SOURCE_HEADER, source)))


def source_of(record: Record, topic: str) -> tuple[int, int] | None:
    """Partition and offset in the source `topic` of a record of the target; None when its last header does not say so."""
    name, value = record.headers[-1] if record.headers else ("", None)
    if name != SOURCE_HEADER or value is None:
        return None
    parts = value.decode(errors="replace").rsplit(":", 2)
    if len(parts) != 3 or parts[0] != topic or not (parts[1].isdigit() and parts[2].isdigit()):
        return None
    return int(parts[1]), int(parts[2])


def murmur2(key: bytes, partitions: int) -> int:
    """The partition that Java's client and kafka-python choose for a key."""
    from kafka.partitioner.default import murmur2 as hashed

    return int((hashed(key) & 0x7FFFFFFF) % partitions)


def crc32(key: bytes, partitions: int) -> int:
    """The partition that librdkafka chooses for a key."""
    return zlib.crc32(key) % partitions


PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], int]]] = {"murmur2": murmur2, "crc32": crc32}


def key_places(keys: Iterable[bytes], partitioner: str, partitions: int) -> dict[bytes, int]:
    """The partition of each key."""
    choose = PARTITIONERS[partitioner]
    return {key: choose(key, partitions) for key in keys}


def _with_headers(mark: bytes, number: int, time_ms: int) -> tuple[bytes | None, int, Headers]:
    value = (None, b"", mark + b";" + PADDING[: number % 100])[number % 3]
    more: Headers = (("twice", b"1"), ("twice", None), ("ключ", b"\xff\x00")) if number % 2 else ()
    return value, time_ms, (*more, (MARK_HEADER, mark))


# --- what topics and groups hold


READ_S_MAX: Final = 120
"""The longest time without a record."""
AT_ONCE: Final = 10_000
QUIET: Final = {"log_level": 0}


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions, by a client of confluent-kafka; empty when there is no such topic."""
    # All topics: to ask for one by its name makes it.
    found = client.list_topics(timeout=30).topics.get(topic)
    return sorted(found.partitions) if found is not None and not found.error else []


class Ends:
    """The ends of topics, asked for again and again over one connection."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin: Any = AdminClient({"bootstrap.servers": servers, **QUIET})

    def of(self, topic: str) -> dict[int, int]:
        """The end of each partition; empty when there is no such topic yet."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition, admin

        latest: Any = vars(admin)["OffsetSpec"].latest()  # not exported, say its types
        wanted = {TopicPartition(topic, partition): latest for partition in partitions_of(self._admin, topic)}
        if not wanted:
            return {}
        try:
            found = retried(lambda: [(place, asked.result(30)) for place, asked in self._admin.list_offsets(wanted).items()])
            return {place.partition: each.offset for place, each in found}
        except KafkaException as error:
            # A topic that is being made is not everywhere at once.
            coming = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if error.args[0].code() not in coming:
                raise
            return {}


def read_topic(servers: str, topic: str) -> Iterator[Record]:
    """Every committed record up to the end of each partition, in the order of the offsets. Raises AssertionError when no end comes."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"enable.partition.eof": True, "enable.auto.commit": False, "isolation.level": "read_committed", "check.crcs": True}
    # A consumer whose queue is full waits for a second before it fetches again, and for records at the end of the log.
    quick = {"fetch.wait.max.ms": 10, "queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 500_000}
    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": "trial-reader", **QUIET, **settings, **quick})
    partitions = partitions_of(consumer, topic)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    remaining = set(partitions)
    deadline = time.monotonic() + READ_S_MAX
    while remaining:
        messages = consumer.consume(AT_ONCE, 0.02)
        if messages:
            deadline = time.monotonic() + READ_S_MAX
        assert time.monotonic() < deadline, f"no record of {topic} for {READ_S_MAX} s, and no end in partitions {sorted(remaining)}"
        for message in messages:
            error = message.error()
            if error is None:
                yield _record(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, f"{topic} cannot be read: {error}"
                remaining.discard(message.partition())
    consumer.close()


def has_members(servers: str, groups: Sequence[str]) -> bool:
    """Whether one of the groups has a member."""
    from confluent_kafka.admin import AdminClient

    client: Any = AdminClient({"bootstrap.servers": servers, **QUIET})
    return any(described.result(30).members for described in client.describe_consumer_groups(list(groups)).values())


def committed(servers: str, group: str, topic: str) -> dict[int, int]:
    """The group's committed offsets by partition; a partition without one is not in it."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    places = [TopicPartition(topic, partition) for partition in partitions_of(consumer, topic)]
    found = retried(lambda: consumer.committed(places, timeout=30)) if places else []
    consumer.close()
    return {place.partition: place.offset for place in found if place.offset >= 0}


def commit(servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit for a group that has no members."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, **QUIET})
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    results = retried(lambda: consumer.commit(offsets=places, asynchronous=False))
    assert all(result.error is None for result in results), results
    consumer.close()


def retried(call: Callable[[], Any]) -> Any:
    """What the call returns; repeated for some seconds, since a broker that has just started may not have all its state yet."""
    from confluent_kafka import KafkaError, KafkaException

    coordinator = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    # Of its partitions it may know an earlier epoch than a client that saw it before.
    coming = (*coordinator, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE)
    deadline = time.monotonic() + 30
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in coming or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _record(message: Any) -> Record:
    headers = message.headers()
    return Record(
        message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1], tuple(headers) if headers else ()
    )
