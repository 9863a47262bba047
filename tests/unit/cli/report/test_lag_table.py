from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.cli.report.lag_table import LagTableError, read_lag_table
from ottla.core.model import TopicPartition


def write(path: Path, rows: list[tuple[str, int, int, int | None]]) -> None:
    """A table of (group, partition, at in milliseconds, lag)."""
    columns = {
        "group": [row[0] for row in rows],
        "topic": ["t"] * len(rows),
        "partition": pa.array([row[1] for row in rows], pa.int32()),
        "at": pa.array([datetime.fromtimestamp(row[2] / 1_000, UTC) for row in rows], pa.timestamp("us", "UTC")),
        "lag": pa.array([row[3] for row in rows], pa.int64()),
    }
    pq.write_table(pa.table(columns), path / "part-0.parquet")


def test_each_step_has_its_greatest_lag_and_keeps_the_last_known_one(tmp_path: Path) -> None:
    write(tmp_path, [("g", 0, 1_000, None), ("g", 0, 1_300, 9), ("g", 0, 1_400, 4), ("g", 0, 2_000, 0), ("g", 1, 1_900, 5), ("h", 0, 0, 1)])
    found = read_lag_table(tmp_path)
    assert (found["g"].from_ms, found["g"].step_ms) == (1_000, 250)
    assert found["g"].rows == {TopicPartition("t", 0): [-1, 9, 9, 9, 0], TopicPartition("t", 1): [-1, -1, -1, 5, 5]}
    assert found["h"].rows == {TopicPartition("t", 0): [1]}


def test_a_day_has_a_sample_a_minute(tmp_path: Path) -> None:
    write(tmp_path, [("g", 0, 0, 1), ("g", 0, 86_399_000, 2)])
    history = read_lag_table(tmp_path)["g"]
    assert (history.step_ms, len(history.rows[TopicPartition("t", 0)])) == (60_000, 1_440)


def test_something_else_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LagTableError, match="is no table lag_history"):
        read_lag_table(tmp_path / "missing")
    pq.write_table(pa.table({"group": ["g"]}), tmp_path / "part-0.parquet")
    with pytest.raises(LagTableError, match="is no table lag_history"):
        read_lag_table(tmp_path)
