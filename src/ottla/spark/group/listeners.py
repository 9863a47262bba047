"""Listeners of streaming queries, which Spark calls after each batch: one commits to groups, one collects what memberships have cost.

`spark.streams.addListener(GroupCommitListener("127.0.0.1:9092", "my-group"))` commits what queries on Kafka have processed, also with
Spark's own Kafka source: where each source ended. It identifies sources by the topics in their offsets, not by their position. It raises
nothing and has short timeouts: `metrics` counts failures, and failed commits are offered again after the next batch, by an idle query, and
at the end.

`spark.streams.addListener(GroupMemberListener())` collects the memberships of all queries from their progress (`ottla.group.mode` =
`member`); `member_progress(query.lastProgress)` is for one.
"""

import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.client.settings import parse_client_settings
from ottla.protocol.model import TopicPartition
from ottla.spark.group.committer import Commit, GroupCommitter
from ottla.spark.group.member import GROUP_MEMBER
from ottla.spark.schemas import MEMBER_PROGRESS

ENDED_MAX: Final = 100
"""Ended queries whose metrics are kept."""

ROWS_MAX: Final = 10_000
"""The newest rows that a listener keeps."""


@dataclass
class _Run:
    """The commits of one run of a query to one group, with the last offer."""

    name: str
    committer: GroupCommitter
    offsets: dict[TopicPartition, int]
    has_ended: bool = False


class GroupCommitListener(StreamingQueryListener):
    """Commits to `groups`: one group for all topics, or a group by topic pattern ("*" and "?" are wildcards; the first match counts).

    `client`: bootstrap servers, or a consumer's properties by Kafka's names. `queries`: names of the queries to commit for; none means
    all. Topics without a group are ignored. Two running queries cannot commit the same partition to one group: only the first does, and
    the other's metrics say so. Raises ValueError for properties that are wrong. `commit` is for tests.
    """

    def __init__(
        self,
        client: str | Mapping[str, str],
        groups: str | Mapping[str, str],
        *,
        queries: Collection[str] = (),
        commit: Commit | None = None,
    ) -> None:
        self._client = parse_client_settings({"bootstrap.servers": client} if isinstance(client, str) else client)
        self._groups = {"*": groups} if isinstance(groups, str) else dict(groups)
        self._queries = frozenset(queries)
        self._commit = commit
        self._runs: dict[tuple[str, str], _Run] = {}
        self._owners: dict[tuple[str, TopicPartition], str] = {}

    def metrics(self) -> list[Mapping[str, int | str]]:
        """For each query and group, oldest first: `query` (its name, or its id), and GroupCommitter.metrics."""
        return [{"query": run.name, **run.committer.metrics()} for run in list(self._runs.values())]

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is processed yet."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done, or the trigger had no records."""
        progress = event.progress
        if self._queries and progress.name not in self._queries:
            return
        for group, offsets in self._by_group(progress.sources).items():
            run = self._run(progress, group)
            mine = self._own(str(progress.runId), run, group, offsets)
            if all(_is_untouched(source) for source in progress.sources):
                run.committer.begin(mine)
            run.offsets = mine
            run.committer.offer(mine)

    def onQueryIdle(self, event: Any) -> None:
        """No records for some seconds: retry failed commits."""
        for run in self._runs_of(event):
            run.committer.offer(run.offsets)

    def onQueryTerminated(self, event: Any) -> None:
        """Retry failed commits for the last time."""
        for run in self._runs_of(event):
            run.committer.offer(run.offsets, is_last=True)
            run.committer.close()
            run.has_ended = True
        self._owners = {owned: owner for owned, owner in self._owners.items() if owner != str(event.runId)}
        ended = [key for key, run in self._runs.items() if run.has_ended]
        for key in ended[: max(0, len(ended) - ENDED_MAX)]:
            del self._runs[key]

    def _by_group(self, sources: Collection[Any]) -> dict[str, dict[TopicPartition, int]]:
        """Processed offsets by group; the lower offset of a topic that a query reads twice."""
        found: dict[str, dict[TopicPartition, int]] = {}
        for source in sources:
            for partition, offset in parse_offsets(source.endOffset).items():
                group = next((group for pattern, group in self._groups.items() if fnmatchcase(partition.topic, pattern)), None)
                if group is not None:
                    offsets = found.setdefault(group, {})
                    offsets[partition] = min(offset, offsets.get(partition, offset))
        return found

    def _run(self, progress: Any, group: str) -> _Run:
        key = (str(progress.runId), group)
        if key not in self._runs:
            self._runs[key] = _Run(progress.name or str(progress.id), GroupCommitter(self._client, group, commit=self._commit), {})
        return self._runs[key]

    def _runs_of(self, event: Any) -> Iterator[_Run]:
        return (run for (run_id, _), run in self._runs.items() if run_id == str(event.runId))

    def _own(self, run_id: str, run: _Run, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """`offsets` without those that another running query commits to the same group."""
        mine = {partition: offset for partition, offset in offsets.items() if self._owners.setdefault((group, partition), run_id) == run_id}
        if len(mine) < len(offsets):
            topic = next(partition.topic for partition in offsets if partition not in mine)
            run.committer.reject(f"another running query commits the topic {topic} to the group {group}: give each query its own")
        return mine


def parse_offsets(text: str | None) -> dict[TopicPartition, int]:
    """The offsets of a Kafka source, Spark's own or Ottla's, from JSON; empty for another kind of source, or without offsets."""
    try:
        topics = json.loads(text or "null")
        found = {
            TopicPartition(topic, int(number)): offset
            for topic, numbers in topics.items()
            if not topic.startswith("#")  # Ottla's source has more than offsets, under such keys
            for number, offset in numbers.items()
        }
    except (ValueError, AttributeError):
        return {}
    return found if all(type(offset) is int and offset >= 0 for offset in found.values()) else {}


def _is_untouched(source: Any) -> bool:
    """Whether a source is at the initial offsets of a new query: an empty first batch."""
    return source.startOffset in (None, "None", "null") and source.numInputRows == 0


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
