"""What the members of a group have left behind: one query's file sink and checkpoint, or a keyed table of each member."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.files import Row, Table, processed_offsets
from ottla.testing.streaming_kills.keyed_table import KeyedTable


class Result(Protocol):
    """What was processed; read at any time."""

    def rows(self) -> Mapping[Row, int]:
        """Every row, with the number of times that it is there."""
        ...

    def processed(self) -> Mapping[TopicPartition, int]:
        """Where the last batch ended that is processed for good; partitions of which nothing is processed may be left out."""
        ...

    def written_again(self) -> int:
        """How many times records were written that had been written before."""
        ...


class SinkResult:
    """A query's Parquet table, written by Spark's file sink, and its checkpoint."""

    def __init__(self, directory: Path) -> None:
        self._table = Table(directory / "table")
        self._checkpoint = directory / "checkpoint"

    def rows(self) -> Mapping[Row, int]:
        """As the sink has committed them."""
        return self._table.rows()

    def processed(self) -> Mapping[TopicPartition, int]:
        """As the checkpoint says."""
        return processed_offsets(self._checkpoint)

    def written_again(self) -> int:
        """None: the sink writes each batch once, and a row that is there twice is a fault that `rows` shows."""
        return 0


class KeyedResult:
    """The keyed tables of all members: what is in any of them is processed."""

    def __init__(self, directories: Sequence[Path], topic: str, partitions: int) -> None:
        self._tables = [KeyedTable(directory) for directory in directories]
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

    def rows(self) -> Mapping[Row, int]:
        """Of all tables together, each row once; a record that has different values in two of them is there with both."""
        return dict.fromkeys((row for table in self._tables for row in table.writes()), 1)

    def processed(self) -> Mapping[TopicPartition, int]:
        """The end of each partition in the table where it is highest."""
        ends: dict[TopicPartition, int] = {}
        for table in self._tables:
            for partition, end in table.ends(self._partitions).items():
                ends[partition] = max(end, ends.get(partition, 0))
        return ends

    def written_again(self) -> int:
        """How often members wrote records that they or other members had written before."""
        writes: Counter[Row] = Counter()
        for table in self._tables:
            writes.update(table.writes())
        return writes.total() - len(writes)
