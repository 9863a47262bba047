"""What the memberships of streaming queries are and have cost, from the queries' progress (`ottla.group.mode` = `member`).

`spark.streams.addListener(GroupMemberListener())` collects it for all queries; `member_progress(query.lastProgress)` is for one.
"""

import json
from collections import deque
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.spark.group.member import GROUP_MEMBER
from ottla.spark.schemas import MEMBER_PROGRESS

ROWS_MAX: Final = 10_000
"""The newest rows that a listener keeps."""


class MemberProgress(NamedTuple):
    """One trigger of one source, in the order of the columns of MEMBER_PROGRESS.

    `timestamp`: when the trigger began, as Spark writes it; `owned`: partitions by topic; `rebalances`, `rebalance_ms`, `stopped_ms`,
    `commits` and `failures` count from the start of the query's run. `rebalance_ms`: from JoinGroup to the assignment; `stopped_ms`: how
    long rebalances left the query without any partition.
    """

    query: str
    batch_id: int
    timestamp: str
    input_rows: int
    trigger_ms: int
    group: str
    member_id: str
    generation: int
    owned: dict[str, list[int]]
    rebalances: int
    rebalance_ms: int
    stopped_ms: int
    commits: int
    failures: int
    last_error: str


def member_progress(progress: Any) -> list[MemberProgress]:
    """A row for each source of a StreamingQueryProgress that is a member of a group."""
    rows = []
    for source in progress.sources:
        member = _member(source.latestOffset)
        if member is not None:
            trigger_ms = int(progress.durationMs.get("triggerExecution", 0))
            name = progress.name or str(progress.id)
            rows.append(MemberProgress(name, progress.batchId, progress.timestamp, source.numInputRows, trigger_ms, **member))
    return rows


class GroupMemberListener(StreamingQueryListener):
    """Keeps the progress of all memberships of a session's queries, at most ROWS_MAX rows."""

    def __init__(self) -> None:
        self._rows: deque[MemberProgress] = deque(maxlen=ROWS_MAX)

    def rows(self) -> list[MemberProgress]:
        """What there is, oldest first."""
        return list(self._rows)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The same as a table."""
        return spark.createDataFrame(self.rows(), MEMBER_PROGRESS)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has happened yet."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done, or the trigger had no records."""
        self._rows.extend(member_progress(event.progress))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: Any) -> None:
        """The rows stay."""


def _member(latest_offset: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(latest_offset or "null")
    except ValueError:
        return None  # another kind of source
    return found.get(GROUP_MEMBER) if isinstance(found, dict) else None
