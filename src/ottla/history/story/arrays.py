"""Typed arrays behind the JSON of a story, their container, and what stands in them: owners of partitions, and lag over time.

The container: `OTLASTRY`, the length of the JSON (u32), the JSON in UTF-8, zero bytes up to a multiple of 8, then each array, its bytes
followed by zero bytes up to a multiple of 8. All numbers are little-endian. In the JSON an array stands as `{"type": "u8", "at": 0,
"count": 3}`: `at` counts bytes from the end of the padded JSON.

Lag has one byte a sample: worst partitions one by one, and the sum of all. Code 0: not known; 1: no lag; n: about 2 ** ((n - 2) / 10)
messages, ten steps a doubling (3.5 % at most beside the truth), 254 at the end.
"""

import json
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import ne
from typing import Any, Final, NamedTuple

from ottla.protocol.model import TopicPartition

MAGIC: Final = b"OTLASTRY"
_TYPES: Final = {"B": "u8", "H": "u16", "I": "u32"}
_LARGEST: Final = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF}
_ALIGN: Final = 8
WORST: Final = 200
_TABLE_BITS: Final = 10
_LARGEST_CODE: Final = 254


def unsigned(values: Iterable[int], *, largest: int) -> "array[int]":
    """The smallest array of unsigned numbers that can hold `largest`."""
    for code, limit in _LARGEST.items():
        if largest <= limit:
            return array(code, values)
    raise ValueError(f"{largest} does not fit into 32 bits")


def pack(document: Any) -> bytes:
    """A document of JSON values and arrays as one container."""
    chunks: list[bytes] = []
    size = 0

    def place(value: Any) -> dict[str, Any]:
        nonlocal size
        if not isinstance(value, array):
            raise TypeError(f"{type(value).__name__} is no JSON value")
        given = value if sys.byteorder == "little" else _swapped(value)
        chunk = given.tobytes()
        chunk += bytes(-len(chunk) % _ALIGN)
        placed = {"type": _TYPES[value.typecode], "at": size, "count": len(value)}
        chunks.append(chunk)
        size += len(chunk)
        return placed

    text = json.dumps(document, default=place, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    head = MAGIC + len(text).to_bytes(4, "little") + text
    return b"".join([head, bytes(-len(head) % _ALIGN), *chunks])


def unpack(data: bytes) -> Any:
    """A document with its arrays, from a container. Raises ValueError for bytes that are none."""
    length = int.from_bytes(data[8:12], "little")
    if data[:8] != MAGIC or 12 + length > len(data):
        raise ValueError("these bytes are no story: write one with `ottla report`")
    base = (12 + length + _ALIGN - 1) // _ALIGN * _ALIGN
    codes = {name: code for code, name in _TYPES.items()}

    def fill(value: dict[str, Any]) -> Any:
        if value.keys() != {"type", "at", "count"}:
            return value
        found = array(codes[value["type"]])
        start = base + value["at"]
        found.frombytes(data[start : start + value["count"] * found.itemsize])
        return found if sys.byteorder == "little" else _swapped(found)

    return json.loads(data[12 : 12 + length], object_hook=fill)


def plain(document: Any) -> Any:
    """The document with its arrays as lists: for programs that read JSON."""
    if isinstance(document, array):
        return document.tolist()
    if isinstance(document, dict):
        return {name: plain(value) for name, value in document.items()}
    return [plain(value) for value in document] if isinstance(document, list | tuple) else document


def _swapped(values: "array[int]") -> "array[int]":
    copy = values[:]
    copy.byteswap()
    return copy


Assigned = Mapping[str, Sequence[int]]


class AssignmentChange(NamedTuple):
    """What one assignment changed: (row, what it owned, what it owns). `at_ms`: when it was stored."""

    at_ms: int
    generation: int | None
    rows: list[tuple[int, Assigned, Assigned]]


class OwnerArrays(NamedTuple):
    """All assignments of a group; N partitions, A assignments.

    topics: (name, partition numbers); a partition's place is its place in all these numbers together. no_owner: the row that means that
    there is none. is_whole: for each assignment 1 if all its N owners are in `owners`, 0 if only changes. starts (A + 1): where each
    assignment's owners begin in `owners`. places: of each owner of a change, the partition's place, in the same order; whole assignments
    have none in it.
    """

    topics: list[tuple[str, list[int]]]
    no_owner: int
    at_ms: list[int]
    generation: list[int | None]
    is_whole: list[int]
    starts: "array[int]"
    places: "array[int]"
    owners: "array[int]"


NOTHING: Final[Assigned] = {}
_CHANGE_SIZE: Final = 3
"""A change takes a place and an owner, about three times an owner alone."""


def owner_arrays(changes: Sequence[AssignmentChange], *, rows: int) -> OwnerArrays:
    """The owners after each change. `rows`: how many rows there are."""
    topics = _topics(changes)
    numbers, places = 0, {}
    for topic, partitions in topics:
        places[topic] = {partition: numbers + index for index, partition in enumerate(partitions)}
        numbers += len(partitions)
    no_owner = rows
    current = unsigned([no_owner], largest=rows) * numbers
    owners, changed = current[:0], unsigned([], largest=numbers)
    starts, is_whole = [0], []
    for change in changes:
        before, current = current, _apply(current, change, places, no_owner)
        touched = _touched(change, places)
        whole = len(touched) * _CHANGE_SIZE > numbers and sum(map(ne, before, current)) * _CHANGE_SIZE > numbers
        is_whole.append(int(whole))
        if whole:
            owners.extend(current)
        else:
            different = [place for place in touched if before[place] != current[place]]
            changed.extend(different)
            owners.extend([current[place] for place in different])
        starts.append(len(owners))
    generations = [change.generation for change in changes]
    times = [change.at_ms for change in changes]
    return OwnerArrays(topics, no_owner, times, generations, is_whole, unsigned(starts, largest=len(owners)), changed, owners)


def _topics(changes: Sequence[AssignmentChange]) -> list[tuple[str, list[int]]]:
    seen: dict[str, set[int]] = {}
    for change in changes:
        for _, _, after in change.rows:
            for topic, partitions in after.items():
                seen.setdefault(topic, set()).update(partitions)
    return [(topic, sorted(seen[topic])) for topic in sorted(seen)]


def _apply(owners: "array[int]", change: AssignmentChange, places: Mapping[str, Mapping[int, int]], no_owner: int) -> "array[int]":
    """The owners after a change: what a row gave up has no owner, unless another got it."""
    after = owners[:]
    for row, gone, _ in change.rows:
        for topic, partitions in gone.items():
            of_topic = places[topic]
            for partition in partitions:
                if after[of_topic[partition]] == row:
                    after[of_topic[partition]] = no_owner
    for row, _, got in change.rows:
        for topic, partitions in got.items():
            of_topic = places[topic]
            for partition in partitions:
                after[of_topic[partition]] = row
    return after


def _touched(change: AssignmentChange, places: Mapping[str, Mapping[int, int]]) -> list[int]:
    """The places of all partitions that a row had or has."""
    assigned = (each for _, gone, got in change.rows for each in (gone, got))
    return sorted({places[topic][partition] for each in assigned for topic, partitions in each.items() for partition in partitions})


@dataclass(frozen=True, slots=True)
class LagHistory:
    """Messages that a group had still to read: a row has a sample every `step_ms` from `from_ms` on (-1: not known); it may be short."""

    from_ms: int
    step_ms: int
    rows: Mapping[TopicPartition, Sequence[int]]


def _log_codes() -> bytes:
    """The code of each number below 2 ** 10, by comparison with powers: 2 ** (code / 10)."""
    edges = [2 ** ((step + 0.5) / 10) for step in range(101)]
    codes, step = [0, 2], 0
    for value in range(2, 1 << _TABLE_BITS):
        while edges[step] <= value:
            step += 1
        codes.append(step + 2)
    return bytes(codes)


_CODES: Final = _log_codes()


def lag_code(lag: int) -> int:
    """The code of a lag; -1: not known."""
    if lag <= 0:
        return int(lag == 0)
    shift = max(0, lag.bit_length() - _TABLE_BITS)
    return min(_LARGEST_CODE, _CODES[lag >> shift] + 10 * shift)


class _Codes(dict[int, int]):
    """The codes of the lags that occur: each is computed once."""

    def __missing__(self, lag: int) -> int:
        code = self[lag] = lag_code(lag)
        return code


def encode_lag(lag: LagHistory, topics: Sequence[tuple[str, Sequence[int]]], *, worst: int = WORST) -> dict[str, Any]:
    """The lag of the `worst` partitions as rows of codes, the worst first, and the sum of all partitions, exact.

    `partitions` are places in `topics`; -1 where no member has ever owned the partition, `names` has those of all rows.
    """
    greatest = {item: max(row, default=0) for item, row in lag.rows.items()}
    chosen = sorted(lag.rows, key=lambda row: (-greatest[row], row))[:worst]
    count = max(map(len, lag.rows.values()), default=0)
    places = _places(topics)
    code_of = _Codes().__getitem__
    codes = bytearray()
    for each in chosen:
        row = lag.rows[each]
        codes += bytes(map(code_of, row)) + bytes(count - len(row))
    return {
        "from_ms": lag.from_ms,
        "step_ms": lag.step_ms,
        "count": count,
        "of_partitions": len(lag.rows),
        "names": [f"{each.topic}-{each.partition}" for each in chosen],
        "partitions": [places.get(each, -1) for each in chosen],
        "codes": array("B", codes),
        "sum": [sum(column) for column in zip_longest(*map(_known, lag.rows.values()), fillvalue=0)],
    }


def _known(row: Sequence[int]) -> Sequence[int]:
    """A row for a sum: what is not known counts as none."""
    return [max(0, lag) for lag in row] if -1 in row else row


def _places(topics: Sequence[tuple[str, Sequence[int]]]) -> dict[TopicPartition, int]:
    names = [TopicPartition(topic, partition) for topic, partitions in topics for partition in partitions]
    return {name: place for place, name in enumerate(names)}
