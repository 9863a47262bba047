"""The reader of a batch query with pushed filters: it reads less where they allow it (see `filters`).

Spark refuses every reader that overrides `pushFilters` where spark.sql.python.filterPushdown.enabled is false, its default. With the
setting on, it pushes in a worker of its own, and only there this reader is used: `is_pushing` decides.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql.datasource import Filter

from ottla.client.admin.client import AdminClient
from ottla.core.model import TopicPartition
from ottla.spark.source.batch_reader import BatchReader
from ottla.spark.source.filters import Pruning, pruning_of
from ottla.spark.source.ranges import OffsetRange

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
