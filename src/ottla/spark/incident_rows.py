"""Rows of the table `verdicts` in the order of their times to rows of the table `incidents`, in a Python worker. It knows no Spark.

The incidents are those of ottla.history.incidents. Verdicts that are further apart than any two of one incident are not in memory together.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.history.incidents import Incident, find_incidents
from ottla.history.patterns import PAUSE_MAX_MS
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.story.incident_texts import incident_dict, utc_text
from ottla.history.verdicts.verdict import Confidence, Cost, SettingAdvice, Verdict
from ottla.spark.schemas import INCIDENTS

Row = Mapping[str, Any]
_SAME: Final = (
    *("group", "generation", "started_ms", "ended_ms", "kind", "planned", "avoidable", "outcome", "members_before", "members_after"),
    *("sharper", "clock"),
)


def incident_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The incidents of sorted batches of verdicts."""
    schema = to_arrow_schema(INCIDENTS, timezone="UTC")
    for verdicts in _stretches(verdict_of_row(row) for batch in batches for row in batch.to_pylist()):
        yield pa.RecordBatch.from_pylist([incident_row(incident) for incident in find_incidents(verdicts)], schema=schema)


def _stretches(verdicts: Iterable[Verdict]) -> Iterator[list[Verdict]]:
    stretch: list[Verdict] = []
    end_ms = 0
    for verdict in verdicts:
        if stretch and verdict.started_ms - end_ms > PAUSE_MAX_MS:
            yield stretch
            stretch = []
        stretch.append(verdict)
        end_ms = max(end_ms, verdict.started_ms, verdict.ended_ms or 0)
    yield stretch


def verdict_of_row(row: Row) -> Verdict:
    """The verdict of a row of the table; times are milliseconds since 1970."""
    return Verdict(
        **{name: row[name] for name in _SAME},
        cause=Cause(row["cause"]),
        candidates=tuple(map(Cause, row["candidates"])),
        confidence=Confidence[row["confidence"].upper()],
        rebalance_class=row["class"],
        generations=tuple(row["generations"]),
        who=None if row["who"] is None else Identity(**row["who"]),
        contributing=tuple(map(Cause, row["contributing"])),
        evidence=dict(row["evidence"]),
        cost=Cost(**row["cost"]),
        advice=tuple(SettingAdvice(**advice) for advice in row["advice"]),
        sources=tuple(row["sources"]),
        rules=tuple(row["rules"]),
    )


def incident_row(incident: Incident) -> dict[str, Any]:
    """An incident as a row of the table, for Arrow: times in microseconds."""
    row = incident_dict(incident, time_text=utc_text)
    del row["kind"]
    row["started_at"], row["ended_at"] = row.pop("started_ms") * 1000, row.pop("ended_ms") * 1000
    row["verdicts"] = [
        {"group": group, "generation": generation, "started_at": started_ms * 1000} for group, generation, started_ms in row["verdicts"]
    ]
    return row
