"""What a streaming query has left on disk, read without Spark: the rows of its table, and how far its checkpoint says it has come.

The table is what Spark's file sink committed (`_spark_metadata`): files that no commit names were left by a task that was killed, and are
no part of it. Reads only, and copes with a writer that is at work or was killed.
Source: Spark's FileStreamSinkLog, OffsetSeqLog and CommitLog.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from ottla.core.model import TopicPartition
from ottla.spark.group.listener import parse_offsets

SINK_LOG: Final = "_spark_metadata"
Row = tuple[int, int, str]
"""Partition, offset and value of a record in the table."""


class Table:
    """The Parquet table of a file sink with the columns partition, offset and value. Files never change, so each is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: set[str] = set()
        self._rows: Counter[Row] = Counter()

    def rows(self) -> Counter[Row]:
        """Every row, with the number of times that it is there."""
        for path in committed_files(self._directory):
            if path not in self._read:
                self._read.add(path)
                self._rows.update(_read_rows(path))
        return self._rows


def committed_files(table: Path) -> list[str]:
    """The files that are the table: those of the last compacted entry of the sink's log and of all that follow."""
    entries = sorted((_number(path), path) for path in (table / SINK_LOG).glob("[0-9]*") if path.suffix in ("", ".compact"))
    last = max((number for number, path in entries if path.suffix), default=-1)
    chosen = [path for number, path in entries if number > last or (number == last and path.suffix)]
    lines = [line for path in chosen for line in path.read_text().splitlines()[1:]]
    files = [json.loads(line) for line in lines]
    return [unquote(urlparse(each["path"]).path) for each in files if each["action"] == "add"]


def processed_offsets(checkpoint: Path) -> dict[TopicPartition, int]:
    """Where the last batch ended that the checkpoint calls done, over all its sources; nothing before the first."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not done:
        return {}
    # The first line is the log's version, the second the batch's own settings; a line a source follows.
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[2:]
    return {partition: offset for line in lines for partition, offset in parse_offsets(line).items()}


def planned_generation(checkpoint: Path) -> int:
    """The group's generation in which the last batch was planned, by a query in member mode; -1 where there is none."""
    planned = [int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()]
    if not planned:
        return -1
    return int(json.loads((checkpoint / "offsets" / str(max(planned))).read_text().splitlines()[2])["#member"]["generation"])


def _number(path: Path) -> int:
    return int(path.name.partition(".")[0])


def _read_rows(path: str) -> Iterator[Row]:
    from pyarrow import parquet

    columns = parquet.read_table(path, columns=["partition", "offset", "value"]).to_pydict()
    return zip(columns["partition"], columns["offset"], columns["value"])
