"""A table keyed by topic, partition and offset, as member mode needs one: a record that is written again replaces itself.

A batch is one transaction, so after a kill the table has all of it or nothing. A batch that Spark runs again, and one that another member
has processed as well, change nothing but `writes`, the number of times that a record was written. SQLite: readers never wait.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.files import Row

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
