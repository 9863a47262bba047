"""The records of a trial: each says of which stream it is, and its number there. What is lost, doubled or out of order shows.

A stream is a key, or the records without a key of one source partition. There are frequent keys and rare ones, short values and long ones,
tombstones, empty values, headers (names twice, without a value, not ASCII), and times that go back now and then.
"""

import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

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
