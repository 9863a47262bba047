"""Copies that are broken on purpose, each in one way, to check that the oracle of the migration trials finds it.

A defect takes the records that a migration writes, in their order, and returns what the broken one writes.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.testing.migration_trials.records import SOURCE_HEADER, Record

Records = list[Record]


def lost(records: Records) -> Records:
    """Without the record in the middle."""
    middle = len(records) // 2
    return records[:middle] + records[middle + 1 :]


def twice(records: Records) -> Records:
    """The record in the middle twice."""
    middle = len(records) // 2
    return records[: middle + 1] + records[middle:]


def swapped(records: Records) -> Records:
    """The first two records of some key in the wrong order."""
    first: dict[bytes, int] = {}
    for second, record in enumerate(records):
        if record.key is not None:
            if record.key in first:
                return _with(_with(records, first[record.key], record), second, records[first[record.key]])
            first[record.key] = second
    raise AssertionError("no key has two records")


def later(records: Records) -> Records:
    """A record a millisecond later than it was."""
    return _with(records, 0, records[0]._replace(timestamp_ms=records[0].timestamp_ms + 1))


def changed(records: Records) -> Records:
    """A record with more in its value."""
    return _with(records, 0, records[0]._replace(value=(records[0].value or b"") + b"!"))


def revived(records: Records) -> Records:
    """A tombstone as an empty value."""
    tombstone = next(index for index, record in enumerate(records) if record.value is None)
    return _with(records, tombstone, records[tombstone]._replace(value=b""))


def keyless(records: Records) -> Records:
    """A record without its key."""
    keyed = next(index for index, record in enumerate(records) if record.key is not None)
    return _with(records, keyed, records[keyed]._replace(key=None))


def without_header(records: Records) -> Records:
    """A record without the first of its own headers."""
    rich = next(index for index, record in enumerate(records) if len(record.headers) > 1)
    return _with(records, rich, records[rich]._replace(headers=records[rich].headers[1:]))


def without_source(records: Records) -> Records:
    """A record that does not say where it comes from."""
    return _with(records, 0, records[0]._replace(headers=records[0].headers[:-1]))


def elsewhere(records: Records) -> Records:
    """Each record of one key in the partition behind the right one."""
    key = next(record.key for record in records if record.key is not None)
    count = 1 + max(record.partition for record in records)
    return [record._replace(partition=(record.partition + 1) % count) if record.key == key else record for record in records]


def invented(records: Records) -> Records:
    """A record with an offset that the source does not have."""
    source = next(value for name, value in records[0].headers if name == SOURCE_HEADER) or b""
    return _with(records, 0, records[0]._replace(headers=(*records[0].headers[:-1], (SOURCE_HEADER, source + b"000"))))


DEFECTS: Final[Mapping[str, Callable[[Records], Records]]] = {
    defect.__name__.replace("_", "-"): defect
    for defect in (lost, twice, swapped, later, changed, revived, keyless, without_header, without_source, elsewhere, invented)
}


def _with(records: Records, index: int, record: Record) -> Records:
    return [*records[:index], record, *records[index + 1 :]]
