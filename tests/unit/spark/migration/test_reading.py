"""Reads of tasks; with brokers: tests/spark/test_migrate.py."""

from typing import Any

import pyarrow as pa
import pytest

from ottla.client.settings import ClientSettings
from ottla.spark.migration.reading import read, task_numbers
from ottla.spark.migration.values import MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source import task_reading
from ottla.spark.source.planning import DataLossError
from ottla.spark.source.tasks import ReadTask

SETTINGS = ReadSettings(client=ClientSettings(bootstrap_servers="h:1"), columns=("offset",))


def rows(*offsets: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"offset": pa.array(offsets, pa.int64())})


def test_the_numbers_of_tasks() -> None:
    numbers = [pa.RecordBatch.from_pydict({"id": each}) for each in ([3], [], [1, 2])]
    assert list(task_numbers(iter(numbers))) == [3, 1, 2]


def test_empty_batches_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_reading, "read", lambda *_: iter([rows(), rows(1)]))
    assert [each.num_rows for each in read(SETTINGS, ReadTask(()))] == [1]


def test_lost_records_end_the_migration_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_arguments: Any) -> Any:
        raise DataLossError('Offsets are gone. Set "failOnDataLoss".') from ValueError("offset 3 of wide-0 is gone")
        yield

    monkeypatch.setattr(task_reading, "read", lose)
    with pytest.raises(MigrationError, match=r"offset 3 of wide-0 is gone\. To continue with what is there, run the same command again"):
        list(read(SETTINGS, ReadTask(())))
