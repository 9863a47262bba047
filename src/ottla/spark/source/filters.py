"""Filters that Spark pushes down: partitions, offsets and the beginnings of partitions that need not be read.

Filters only make ranges smaller. Spark gets every filter back and checks each row again, so that an unsupported filter costs time and never
rows. Timestamps bound a range from below only: records of a partition are in the order of their offsets, and not always of their timestamps
(CreateTime). Reading begins at the first record that is late enough; behind one that is too late there may be earlier ones.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from ottla.core.model import TopicPartition
from ottla.spark.source.ranges import OffsetRange

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)

FirstOffsets = Callable[[Sequence[TopicPartition], int], Mapping[TopicPartition, int]]
"""The first offset at or after a time (ms since 1970) for each partition, -1 where there is none: AdminClient.list_offsets."""


class ValueRange(NamedTuple):
    """Whole numbers from `low` to `high`, both included; `among`: only these, None: all of them."""

    low: int = _LOWEST
    high: int = _HIGHEST
    among: frozenset[int] | None = None

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and self.low <= value <= self.high and (self.among is None or value in self.among)

    def within(self, other: "ValueRange") -> "ValueRange":
        """The intersection."""
        either = self.among if other.among is None else other.among if self.among is None else self.among & other.among
        return ValueRange(max(self.low, other.low), min(self.high, other.high), either)


class Pruning(NamedTuple):
    """Partitions, offsets and timestamps (ms since 1970) that a query can have rows of."""

    partition: ValueRange = ValueRange()
    offset: ValueRange = ValueRange()
    timestamp_ms: ValueRange = ValueRange()

    def apply(self, ranges: Sequence[OffsetRange], first_offsets: FirstOffsets) -> list[OffsetRange]:
        """The parts of `ranges` that can have rows. The brokers are asked only if a timestamp bounds them."""
        low, high, _ = self.offset
        cut = [
            each._replace(start=max(each.start, low), end=min(each.end, high + 1)) for each in ranges if each.partition in self.partition
        ]
        cut = [each for each in cut if each.start < each.end]
        # Negative timestamps have special meanings in ListOffsets.
        if self.timestamp_ms.low < 0 or not cut:
            return cut
        found = first_offsets([TopicPartition(each.topic, each.partition) for each in cut], self.timestamp_ms.low)
        firsts = [found[TopicPartition(each.topic, each.partition)] for each in cut]
        # Where no record is late enough, there is nothing to read.
        late = [each._replace(start=max(each.start, first)) for each, first in zip(cut, firsts, strict=True) if first >= 0]
        return [each for each in late if each.start < each.end]


def pruning_of(filters: Iterable[Filter]) -> Pruning:
    """The pruning of all filters together."""
    pruning = Pruning()
    for each in filters:
        attribute = getattr(each, "attribute", ())
        if attribute not in (("partition",), ("offset",), ("timestamp",)):
            continue
        name = attribute[0] if attribute != ("timestamp",) else "timestamp_ms"
        bounds = _bounds(each, _milliseconds if name == "timestamp_ms" else _whole)
        if bounds is not None:
            pruning = pruning._replace(**{name: getattr(pruning, name).within(bounds)})
    return pruning


def _bounds(pushed: Filter, numbers: Callable[[Any], tuple[int, int] | None]) -> ValueRange | None:
    """The range of a filter. `numbers` gives the whole numbers at or below and at or above a value, None where there are none."""
    if isinstance(pushed, In):
        # null is in no list, for SQL
        pairs = [numbers(value) for value in pushed.value if value is not None]
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(pairs):
            return None
        among = frozenset(low for low, high in known if low == high)
        return ValueRange(min(among, default=_HIGHEST), max(among, default=_LOWEST), among)
    pair = numbers(getattr(pushed, "value", None))
    if pair is None:
        return None
    below, above = pair
    match pushed:
        case EqualTo() | EqualNullSafe():
            return ValueRange(above, below)
        case GreaterThan():
            return ValueRange(low=below + 1)
        case GreaterThanOrEqual():
            return ValueRange(low=above)
        case LessThan():
            return ValueRange(high=above - 1)
        case LessThanOrEqual():
            return ValueRange(high=below)
    return None


def _whole(value: Any) -> tuple[int, int] | None:
    return (value, value) if type(value) is int else None


def _milliseconds(value: Any) -> tuple[int, int] | None:
    """Spark's timestamps have microseconds, Kafka's milliseconds."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    since = value - _EPOCH
    return since // _MILLISECOND, -(-since // _MILLISECOND)
