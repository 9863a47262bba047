"""What must hold for a migration: every committed record is in the target once, as it was; a key keeps its order; no group misses a record.

The source is read once and remembered by digests, so that millions of records fit in memory; the target is checked while it is read.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from trials.migration.records import Record, mark_of, source_of

WRONG_MAX: Final = 50
"""A target with more than that is not read further."""

Offsets = Mapping[int, int]
"""Offsets by partition."""


class Source:
    """The committed records of the source: a digest of each, by partition and offset."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.count = 0
        self._digests: dict[int, array[int]] = {}
        for record in records:
            digests = self._digests.setdefault(record.partition, array("q"))
            # Offsets without a record are those of control records and of aborted transactions.
            digests.extend([0] * (record.offset - len(digests)))
            digests.append(_digest(record, len(record.headers)))
            self.count += 1

    def digest(self, partition: int, offset: int) -> int:
        """The digest of the record there; 0 when there is none."""
        digests = self._digests.get(partition)
        return digests[offset] if digests is not None and offset < len(digests) else 0

    def ends(self) -> dict[int, int]:
        """The offset behind the last record of each partition."""
        return {partition: len(digests) for partition, digests in self._digests.items()}


class Copy(NamedTuple):
    """A record of the target: its offset there, and where it comes from."""

    offset: int
    source_partition: int
    source_offset: int


class OffsetMap:
    """The copies in each partition of the target, in the order of their offsets there."""

    def __init__(self) -> None:
        self.count = 0
        self._columns: dict[int, tuple[array[int], array[int], array[int]]] = {}

    def add(self, partition: int, copy: Copy) -> None:
        """The next copy in a partition."""
        columns = self._columns.setdefault(partition, (array("q"), array("i"), array("q")))
        for column, value in zip(columns, copy, strict=True):
            column.append(value)
        self.count += 1

    def copies(self, partition: int) -> Iterable[Copy]:
        """The copies in this partition."""
        return map(Copy, *self._columns.get(partition, ((), (), ())))

    def end(self, partition: int) -> int:
        """The offset behind the last copy."""
        columns = self._columns.get(partition)
        return columns[0][-1] + 1 if columns else 0


class Expected(NamedTuple):
    """What a target is checked against: the source's name and records, the number of records of each stream, the partition of a key."""

    topic: str
    source: Source
    written: Mapping[bytes, int]
    place: Callable[[bytes], int]


class TargetCheck:
    """Checks the records of a target one by one; `wrong` says what is wrong so far, `offset_map` where the copies are."""

    def __init__(self, expected: Expected) -> None:
        self.offset_map = OffsetMap()
        self.wrong: list[str] = []
        self._expected = expected
        self._seen = {partition: bytearray(end) for partition, end in expected.source.ends().items()}
        self._last: dict[tuple[int, int], int] = {}
        self._streams: dict[bytes, int] = {}
        self._last_numbers: dict[tuple[bytes, int], int] = {}

    def check(self, records: Iterable[Record]) -> None:
        """Check the whole target, read partition by partition or mixed."""
        for record in records:
            found = self._copy(record)
            if found is not None:
                self.wrong.append(f"{record.partition}@{record.offset} {found}")
            if len(self.wrong) >= WRONG_MAX:
                self.wrong.append("the rest was not read")
                return
        self._check_complete()

    def _copy(self, record: Record) -> str | None:
        """What is wrong with a record, in words."""
        place = source_of(record, self._expected.topic)
        if place is None:
            return "has no header that says where it comes from"
        partition, offset = place
        words = f"is {partition}@{offset} of the source"
        digest = self._expected.source.digest(partition, offset)
        if not digest:
            return f"{words}, where no committed record is"
        self.offset_map.add(record.partition, Copy(record.offset, partition, offset))
        if self._seen[partition][offset]:
            return f"{words}, as one before"
        self._seen[partition][offset] = 1
        if digest != _digest(record, len(record.headers) - 1):
            return f"{words}, and differs from it"
        if record.key is not None and self._expected.place(record.key) != record.partition:
            return f"{words}, and its key belongs to {self._expected.place(record.key)}"
        before = self._last.get((record.partition, partition), -1)
        self._last[record.partition, partition] = offset
        if offset < before:
            return f"{words}, and comes behind {partition}@{before}"
        return self._number(record, words)

    def _number(self, record: Record, words: str) -> str | None:
        mark = mark_of(record)
        if mark is None:
            return f"{words}, and is no record of the trial"
        name, number = mark
        before = self._last_numbers.get((name, record.partition), -1)
        self._last_numbers[name, record.partition] = number
        self._streams[name] = self._streams.get(name, 0) + 1
        if number < before or (record.key is not None and number != before + 1):
            return f"{words}, number {number} of {name!r}, and comes behind number {before}"
        return None

    def _check_complete(self) -> None:
        source = self._expected.source
        if sum(map(sum, self._seen.values())) < source.count:
            places = ((partition, offset) for partition, end in source.ends().items() for offset in range(end))
            lost = [f"{p}@{o} of the source is lost" for p, o in places if source.digest(p, o) and not self._seen[p][o]]
            self.wrong += [*lost[:WRONG_MAX], f"{len(lost)} of {source.count} records are lost"]
        for name, count in self._expected.written.items():
            there = self._streams.get(name, 0)
            if there != count and len(self.wrong) < WRONG_MAX:
                self.wrong.append(f"{name!r} has {there} records, and {count} were acknowledged")


class Carried(NamedTuple):
    """A group's offsets in the source and in the target, and the number of records that the command said it will read again."""

    source: Offsets
    target: Offsets
    stated: int | None


def wrong_group(offset_map: OffsetMap, partitions: Iterable[int], carried: Carried) -> tuple[list[str], int]:
    """What is wrong with a group's offsets in the target, and the number of records that it reads again."""
    wrong, replay = [], 0
    for partition in partitions:
        committed = carried.target.get(partition)
        if committed is None:
            wrong.append(f"{partition} has no committed offset")
            continue
        first_unread = None
        for offset, source_partition, source_offset in offset_map.copies(partition):
            is_read = source_offset < carried.source.get(source_partition, 0)
            replay += is_read and offset >= committed
            if first_unread is None and not is_read:
                first_unread = offset
        best = offset_map.end(partition) if first_unread is None else first_unread
        if committed > best:
            wrong.append(f"{partition} is committed at {committed} and skips {best}, which the group has not read")
        elif committed < best and any(committed <= offset < best for offset, _, _ in offset_map.copies(partition)):
            wrong.append(f"{partition} is committed at {committed}, and the first record that the group has not read is {best}")
    if carried.stated is not None and carried.stated != replay:
        wrong.append(f"{replay} records are read again, and {carried.stated} were stated")
    return wrong, replay


def _digest(record: Record, headers: int) -> int:
    """Key, value, time and the first headers, in 64 bits; never 0."""
    return hash((record.key, record.value, record.timestamp_ms, record.headers[:headers])) or 1
