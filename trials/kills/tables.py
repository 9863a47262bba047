"""What members have left on disk: the table of Spark's file sink and its checkpoint, or a keyed table of each member.

The table of a file sink is what it committed (`_spark_metadata`): files that no commit names were left by a task that was killed, and are
no part of it. Reads only, and copes with a writer that is at work or was killed.
Source: Spark's FileStreamSinkLog, OffsetSeqLog and CommitLog.

In a table keyed by topic, partition and offset, as member mode needs one, a record that is written again replaces itself. A batch is one
transaction, so after a kill the table has all of it or nothing. A batch that Spark runs again, and one that another member has processed as
well, change nothing but `writes`, the number of times that a record was written. SQLite: readers never wait.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlparse

from ottla.protocol.model import TopicPartition
from ottla.spark.group.listeners import parse_offsets
from trials.harness.oracle import Row

SINK_LOG: Final = "_spark_metadata"


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


FILE: Final = "table.sqlite"
WAIT_S_MAX: Final = 60
CREATE: Final = """
    CREATE TABLE IF NOT EXISTS records (topic TEXT, partition INTEGER, offset INTEGER, value TEXT, writes INTEGER,
    PRIMARY KEY (topic, partition, offset)) WITHOUT ROWID
"""
WRITE: Final = """
    INSERT INTO records VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET value = excluded.value, writes = writes + 1
"""


class KeyedTable:
    """The table in `directory`. Each call opens it for itself, so any thread and process may use it at any time."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def write(self, records: Iterable[tuple[str, int, int, str]]) -> None:
        """Write the records of one batch, all or none: topic, partition, offset and value."""
        with self._open() as database, database:
            database.executemany(WRITE, records)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition; partitions without records are left out."""
        query = "SELECT max(offset) + 1 FROM records WHERE topic = ? AND partition = ?"
        with self._open() as database:
            found = {partition: database.execute(query, partition).fetchone()[0] for partition in partitions}
        return {partition: end for partition, end in found.items() if end is not None}

    def writes(self) -> Counter[Row]:
        """Every row of the table, with the number of times that it was written."""
        with self._open() as database:
            rows = database.execute("SELECT partition, offset, value, writes FROM records")
            return Counter({(partition, offset, value): writes for partition, offset, value, writes in rows})

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=WAIT_S_MAX)) as database:
            # A killed process loses nothing that it has handed to the operating system: no need to wait for the disk.
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(CREATE)
            yield database


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
