"""The lag of partitions over time in one byte a sample: worst partitions one by one, and the sum of all.

Code 0: not known; 1: no lag; n: about 2 ** ((n - 2) / 10) messages, ten steps a doubling (3.5 % at most beside the truth), 254 at the end.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from ottla.protocol.model import TopicPartition

WORST: Final = 200
_TABLE_BITS: Final = 10
_LARGEST: Final = 254


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
    return min(_LARGEST, _CODES[lag >> shift] + 10 * shift)


class _Codes(dict[int, int]):
    """The codes of the lags that occur: each is computed once."""

    def __missing__(self, lag: int) -> int:
        code = self[lag] = lag_code(lag)
        return code


def encode_lag(lag: LagHistory, topics: Sequence[tuple[str, Sequence[int]]], *, worst: int = WORST) -> dict[str, Any]:
    """The lag of the `worst` partitions as rows of codes, the worst first, and the sum of all partitions, exact.

    `partitions` are places in `topics`; -1 where no member has ever owned the partition, `names` has those of all rows.
    """
    greatest = {each: max(row, default=0) for each, row in lag.rows.items()}
    chosen = sorted(lag.rows, key=lambda each: (-greatest[each], each))[:worst]
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
