"""The contract of `ottla migrate` in a page of plain Python, for tests of the trials without Spark; broken on purpose on request.

The target topic is its only state: it copies what is behind the highest source offset that it finds there, by source partition and target
partition. `--defect` names one of broken.DEFECTS, `--wrong-groups` commits too far.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.testing.raw_client import create_topic
from trials.migration.records import (
    PARTITIONERS,
    SOURCE_HEADER,
    Ends,
    Record,
    commit,
    committed,
    copied,
    has_members,
    read_topic,
    source_of,
)
from trials.migration.traffic import Writer

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


Positions = Mapping[str, Mapping[int, int]]


class PlainCopy:
    """A migration of `given.source` into `given.target`, which is made if there is none."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._groups = given.groups.split(",")
        if not Ends(given.bootstrap_server).of(given.target):
            create_topic(given.bootstrap_server, given.target, given.partitions)
        self._writer = Writer(given.bootstrap_server, given.target)

    def run(self) -> dict[str, Any]:
        """Copy until the source stands still and the groups have no members, then carry the groups over; return what was done."""
        given = self._given
        if given.dry_run:
            return self._groups_of(self._new_records())[0]
        last_copied = time.monotonic()
        while True:
            # Before the copy: what was written before the last member left is copied then.
            waits = given.follow and has_members(given.bootstrap_server, self._groups)
            new = self._new_records()
            # A slow one can be killed on its way.
            for begin in range(0, len(new), given.batch):
                self._writer.write(new[begin : begin + given.batch])
                self._writer.flush()
            if new:
                last_copied = time.monotonic()
            elif not waits and (not given.follow or time.monotonic() - last_copied > given.idle):
                break
        stated, first = self._groups_of(read_topic(given.bootstrap_server, given.target))
        self._commit(first)
        return stated

    def _new_records(self) -> list[Record]:
        """What is not in the target yet, in the order in which it is to be written."""
        given = self._given
        highest = {}
        for record in read_topic(given.bootstrap_server, given.target):
            place = source_of(record, given.source)
            if place is not None:
                highest[record.partition, place[0]] = place[1]
        read = [copied(each, given.source, self._place(each)) for each in read_topic(given.bootstrap_server, given.source)]
        new = [each for each in read if self._source(each)[1] > highest.get((each.partition, self._source(each)[0]), -1)]
        positions = self._positions()
        latest: dict[int, int] = {}
        order = {}
        for each in new:
            partition, offset = self._source(each)
            latest[partition] = max(latest.get(partition, 0), each.timestamp_ms)
            order[partition, offset] = (-_readers(positions, partition, offset), latest[partition], partition, offset)
        new.sort(key=lambda each: order[self._source(each)])
        return DEFECTS[given.defect](new) if new and given.defect else new

    def _groups_of(self, records: Iterable[Record]) -> tuple[dict[str, Any], dict[str, dict[int, int]]]:
        """What each group reads again, and its offsets, in a target with these records."""
        positions = self._positions()
        first = {group: dict.fromkeys(range(self._given.partitions), 0) for group in self._groups}
        unread: set[tuple[str, int]] = set()
        replay = dict.fromkeys(self._groups, 0)
        for record in records:
            partition, offset = source_of(record, self._given.source) or (0, 0)
            for group in self._groups:
                if offset >= positions[group].get(partition, 0):
                    unread.add((group, record.partition))
                elif (group, record.partition) in unread:
                    replay[group] += 1
                if (group, record.partition) not in unread:
                    first[group][record.partition] = record.offset + 1
        return {"groups": {group: {"replay": count} for group, count in replay.items()}}, first

    def _commit(self, first: dict[str, dict[int, int]]) -> None:
        given = self._given
        if given.wrong_groups:
            first[self._groups[0]][0] += 1
        for group, offsets in first.items():
            commit(given.bootstrap_server, group, given.target, offsets)
        rows = [f"{group},{given.target},{each},{offset}\n" for group, offsets in first.items() for each, offset in offsets.items()]
        Path(given.plan).write_text("".join(rows))

    def _place(self, record: Record) -> int:
        partitions = self._given.partitions
        return record.partition % partitions if record.key is None else PARTITIONERS[self._given.partitioner](record.key, partitions)

    def _positions(self) -> Positions:
        return {group: committed(self._given.bootstrap_server, group, self._given.source) for group in self._groups}

    def _source(self, record: Record) -> tuple[int, int]:
        place = source_of(record, self._given.source)
        assert place is not None
        return place


def _readers(positions: Positions, partition: int, offset: int) -> int:
    return sum(offset < offsets.get(partition, 0) for offsets in positions.values())


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Those of `ottla migrate` that the trials use, and what is to go wrong."""
    parser = argparse.ArgumentParser(prog="python -m trials.migration.plain_copy")
    parser.add_argument("source")
    parser.add_argument("target")
    for name in ("--bootstrap-server", "--groups", "--partitioner", "--plan"):
        parser.add_argument(name, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--idle", type=float, default=30)
    parser.add_argument("--batch", type=int, default=100, help="records that are written at once")
    parser.add_argument("--defect", choices=tuple(DEFECTS))
    for name in ("--follow", "--json", "--dry-run", "--wrong-groups"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(PlainCopy(arguments(sys.argv[1:])).run()) + "\n")
