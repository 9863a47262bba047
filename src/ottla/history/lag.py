"""The lag of groups over time, from samples: those of a table, and those that an archive of `ottla watch` has from its looks.

A look stores the committed offset and the end of the log of each partition that differs from the look before: their difference is the lag.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.history.sources.admin import OFFSETS
from ottla.history.sources.archive import SNAPSHOTS_FOLDER, LineProblems, read_lines
from ottla.history.story.arrays import LagHistory
from ottla.log.files import OsFiles
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

SAMPLES_MAX: Final = 1_440
STEPS_MS: Final = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 86_400_000)
"""The smallest of these with at most so many samples is taken: a minute for a day."""


class LagSample(NamedTuple):
    """The lag of a group in a partition at a time; None: not known."""

    topic: str
    partition: int
    at_ms: int
    lag: int | None


def lag_history(samples: Sequence[LagSample]) -> LagHistory:
    """The greatest lag of each step, kept until the next known one. There is at least one sample."""
    times = [sample.at_ms for sample in samples]
    from_ms, to_ms = min(times), max(times)
    step_ms = next((step for step in STEPS_MS if (to_ms - from_ms) // step < SAMPLES_MAX), STEPS_MS[-1])
    count = min(SAMPLES_MAX, (to_ms - from_ms) // step_ms + 1)
    found: dict[TopicPartition, list[int]] = {}
    for topic, partition, at_ms, lag in sorted(samples, key=lambda sample: sample.at_ms):
        row = found.setdefault(TopicPartition(topic, partition), [-1] * count)
        at = min(count - 1, (at_ms - from_ms) // step_ms)
        row[at] = max(row[at], -1 if lag is None else max(0, lag))
    return LagHistory(from_ms, step_ms, {partition: _filled(row) for partition, row in found.items()})


def _filled(samples: list[int]) -> list[int]:
    """With the last known value where there is none."""
    last = -1
    for at, sample in enumerate(samples):
        last = samples[at] = last if sample < 0 else sample
    return samples


def lag_of_archives(directories: Iterable[Path]) -> dict[str, LagHistory]:
    """The lag of each group by the looks in archives; files that cannot be read have none."""
    samples: dict[str, list[LagSample]] = defaultdict(list)
    for directory in directories:
        try:
            for line in read_lines(OsFiles(directory), SNAPSHOTS_FOLDER, LineProblems()):
                if b'"offsets"' in line:
                    _add(line, samples)
        except StorageError:
            continue
    return {group: lag_history(of_group) for group, of_group in samples.items()}


def _add(line: bytes, samples: dict[str, list[LagSample]]) -> None:
    try:
        fields: Any = json.loads(line)
        if fields["kind"] != OFFSETS:
            return
        at_ms = int(fields["at_ms"])
        found = [
            LagSample(str(topic), int(partition), at_ms, None if committed is None or end is None else max(0, int(end) - int(committed)))
            for topic, partition, committed, end in fields["offsets"]
        ]
        if found:
            samples[str(fields["group"])] += found
    except (ValueError, TypeError, KeyError, RecursionError):
        return
