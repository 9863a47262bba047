"""The target partition of each record, and its place in the order there: for whole Arrow batches, in the workers.

It adds the columns of ORDER to a batch of one source partition, and drops records that the target has already. It reads and writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ottla.spark.migration.values import CRC32, NOTHING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

TARGET, PHASE, LATEST = "target_partition", "phase", "latest"
ORDER: Final = (TARGET, PHASE, LATEST)
"""The added columns: the target partition (int32), the number of groups that have not read the record (int32), and the latest timestamp of
its source partition so far, in microseconds (int64): timestamps may go backwards, offsets do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How the records of the source are spread over `partitions`.

    By source partition: `positions`, the sorted committed offsets of the groups, and `copied`, the highest source offset that each target
    partition has (NOTHING: none).
    """

    partitions: int
    partitioner: str
    positions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    copied: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class PartitionRouter:
    """For the records of one source partition, in the order of their offsets."""

    def __init__(self, routing: Routing, partition: int) -> None:
        import numpy as np

        self._routing = routing
        self._partition = partition
        self._positions = np.array(routing.positions.get(partition, ()), np.int64)
        self._copied = np.array(routing.copied.get(partition, (NOTHING,) * routing.partitions), np.int64)
        self._latest = np.iinfo(np.int64).min

    def route(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The records that are still to copy, with the columns of ORDER. Needs the columns key, offset and timestamp."""
        import numpy as np
        import pyarrow as pa

        targets = self._targets(batch.column("key"))
        offsets = np.asarray(batch.column("offset"))
        times = np.asarray(batch.column("timestamp").cast(pa.int64()))
        latest = np.maximum(np.maximum.accumulate(times), self._latest) if len(times) else times
        self._latest = latest[-1] if len(latest) else self._latest
        phases = np.searchsorted(self._positions, offsets, side="right").astype(np.int32)
        arrays = (pa.array(targets), pa.array(phases), pa.array(latest))
        routed = pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *ORDER])
        missing = offsets > self._copied[targets]
        return routed if missing.all() else routed.filter(pa.array(missing))

    def _targets(self, keys: "pa.BinaryArray") -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        """By the key, as producers will choose; records that they would put anywhere stay together with those of their source partition."""
        import numpy as np

        from ottla.columnar.partitioning import NO_PARTITION, murmur2_partitions

        count = self._routing.partitions
        anywhere = self._partition % count
        if self._routing.partitioner == CRC32:
            # librdkafka puts empty keys anywhere, too.
            return np.array([crc32(key) % count if key else anywhere for key in keys.to_pylist()], np.int32)
        targets = murmur2_partitions(keys, count)
        targets[targets == NO_PARTITION] = anywhere
        return targets
