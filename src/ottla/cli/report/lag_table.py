"""Reads the table `lag_history` of the pipeline `lag` (docs/pipelines.md) as the lag of a report."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from ottla.core.diagnosis.story.lag import LagHistory
from ottla.core.model import TopicPartition

SAMPLES_MAX: Final = 1_440
STEPS_MS: Final = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
"""The smallest of these with at most so many samples is taken: a minute for a day."""
COLUMNS: Final = ("group", "topic", "partition", "at", "lag")


class LagTableError(Exception):
    """The table cannot be read; the text says why."""


def read_lag_table(directory: Path) -> dict[str, LagHistory]:
    """The lag of each group in a directory of Parquet files: the greatest of each step, kept until the next known one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(directory, columns=list(COLUMNS))
    except (OSError, pa.ArrowException) as error:
        raise LagTableError(f"{directory} is no table lag_history: {error}") from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise LagTableError(f"{directory} is no table lag_history: it has no column {', '.join(missing)}")
    table = table.set_column(table.column_names.index("at"), "at", table["at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
    by_group: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        by_group[row[0]].append(row[1:])
    return {group: _history(rows) for group, rows in by_group.items()}


def _history(rows: list[tuple[Any, ...]]) -> LagHistory:
    times = [at_ms for _, _, at_ms, _ in rows]
    from_ms, to_ms = min(times), max(times)
    step_ms = next((step for step in STEPS_MS if (to_ms - from_ms) // step < SAMPLES_MAX), STEPS_MS[-1])
    count = min(SAMPLES_MAX, (to_ms - from_ms) // step_ms + 1)
    found: dict[TopicPartition, list[int]] = {}
    for topic, partition, at_ms, lag in sorted(rows, key=lambda row: row[2]):
        samples = found.setdefault(TopicPartition(topic, partition), [-1] * count)
        at = min(count - 1, (at_ms - from_ms) // step_ms)
        samples[at] = max(samples[at], -1 if lag is None else max(0, lag))
    return LagHistory(from_ms, step_ms, {partition: _filled(samples) for partition, samples in found.items()})


def _filled(samples: list[int]) -> list[int]:
    """With the last known value where there is none."""
    last = -1
    for at, sample in enumerate(samples):
        last = samples[at] = last if sample < 0 else sample
    return samples
