"""The reader of a batch query: requests the offsets of the topics, plans ranges, as small as filters allow, and makes the tasks.

It runs in Spark's planner and fetches no records: `task_reading` does, in the workers.

Filters that Spark pushes down name partitions, offsets and the beginnings of partitions that need not be read. They only make ranges
smaller. Spark gets every filter back and checks each row again, so that an unsupported filter costs time and never rows. Timestamps bound
a range from below only: records of a partition are in the order of their offsets, and not always of their timestamps (CreateTime). Reading
begins at the first record that is late enough; behind one that is too late there may be earlier ones.

Spark refuses every reader that overrides `pushFilters` where spark.sql.python.filterPushdown.enabled is false, its default. With the
setting on, it pushes in a worker of its own, and only there the reader with filters is used: `is_pushing` decides.
"""

import datetime
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from ottla.client.admin.client import AdminClient
from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import EARLIEST, LATEST, Edge, SourceOptions
from ottla.spark.options.values import OptionError
from ottla.spark.source.columns import checked_columns
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import OffsetRange, ReadTask, into_tasks, plan_batch, report

if TYPE_CHECKING:
    import pyarrow


class BatchReader(DataSourceReader):
    """Plans in the driver (`partitions`), reads in the tasks (`read`); it is pickled in between."""

    def __init__(self, options: SourceOptions, schema: StructType, *, tasks_max: int | None = None) -> None:
        self._options = options
        self._settings = options.read_settings(checked_columns(schema, options))
        self._tasks_max = tasks_max

    def partitions(self) -> list[InputPartition]:
        """The tasks: none empty. Raises ClientError, DataLossError or OptionError."""
        return list(into_tasks(self.ranges(), self._options, self._tasks_max))

    def ranges(self) -> list[OffsetRange]:
        """The ranges to read, one per partition. Raises as `partitions` does."""
        options, reader = self._options, OffsetReader(self._options)
        try:
            starts, _ = reader.resolve(options.starting, is_start=True)
            ends, _ = reader.resolve(options.ending, is_start=False)
            if set(starts.by_partition) != set(ends.by_partition):
                raise OptionError("The topics got or lost partitions while the query was planned: run it again.")
            earliest = starts if options.starting is Edge.EARLIEST else reader.at_edge(EARLIEST, starts)
            latest = ends if options.ending is Edge.LATEST else reader.at_edge(LATEST, starts)
        finally:
            reader.close()
        planned = plan_batch(starts.by_partition, ends.by_partition, earliest, latest.by_partition)
        report(planned.losses, fail_on_data_loss=options.fail_on_data_loss)
        return planned.ranges

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of a task. Raises as task_reading.read does."""
        if not isinstance(partition, ReadTask):
            return iter(())  # Spark's placeholder where there are no partitions
        from ottla.spark.source import task_reading

        return task_reading.read(self._settings, partition)


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


_PUSHING_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class FilteredBatchReader(BatchReader):
    """Spark calls `pushFilters` before `partitions`."""

    _pruning = Pruning()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return all filters: Spark applies them to the rows again."""
        self._pruning = pruning_of(filters)
        return filters

    def ranges(self) -> list[OffsetRange]:
        """The ranges to read that can have rows. Raises as BatchReader does."""
        return self._pruning.apply(super().ranges(), self._first_offsets)

    def _first_offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Mapping[TopicPartition, int]:
        with AdminClient(self._options.client) as admin:
            return admin.list_offsets(partitions, timestamp_ms)


def is_pushing() -> bool:
    """Whether this process is the one in which Spark pushes filters down."""
    main = sys.modules["__main__"].__spec__  # a worker without a daemon runs the module itself
    return _PUSHING_WORKER in sys.modules or (main is not None and main.name == _PUSHING_WORKER)
