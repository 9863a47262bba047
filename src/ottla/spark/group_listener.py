"""Commits to groups what any streaming query on Kafka has processed, Spark's own Kafka source included: a listener to add to a session.

`spark.streams.addListener(GroupCommitListener("127.0.0.1:9092", "my-group"))`. It hears of a batch when the batch is done, and commits
where each source ended. Sources are known by the topics in their offsets, never by their place. Nothing is raised, nobody waits for long:
trouble is counted and kept (`metrics`), and what was not committed is offered again by the next batch, an idle query, and at the end.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.consumer.settings import parse_client_settings
from ottla.core.model import TopicPartition
from ottla.spark.group_commit import Commit, GroupCommitter

ENDED_MAX: Final = 100
"""Queries that have ended and whose counts are kept."""


@dataclass
class _Run:
    """What one run of a query commits to one group, and what it offered last."""

    name: str
    committer: GroupCommitter
    offsets: dict[TopicPartition, int]
    has_ended: bool = False


class GroupCommitListener(StreamingQueryListener):
    """Commits to `groups`: one group for all topics, or a group by topic ("*" and "?" stand for any letters; the first that fits).

    `client`: bootstrap servers, or a consumer's properties by Kafka's names. `queries`: names of the queries that count; none means all.
    Topics without a group are left alone. Two running queries cannot commit the same partition to one group: only the first does, and
    the other one's trouble says so. Raises ValueError for properties that are wrong. `commit` is for tests.
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
        """For each query and group, oldest first: `query` (its name, or its id), and what GroupCommitter.metrics tells."""
        return [{"query": run.name, **run.committer.metrics()} for run in list(self._runs.values())]

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is processed yet."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch is done, or there was nothing to do."""
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
        """Nothing new for some seconds: time for what could not be committed before."""
        for run in self._runs_of(event):
            run.committer.offer(run.offsets)

    def onQueryTerminated(self, event: Any) -> None:
        """The last chance for what could not be committed before."""
        for run in self._runs_of(event):
            run.committer.offer(run.offsets, is_last=True)
            run.committer.close()
            run.has_ended = True
        self._owners = {owned: owner for owned, owner in self._owners.items() if owner != str(event.runId)}
        ended = [key for key, run in self._runs.items() if run.has_ended]
        for key in ended[: max(0, len(ended) - ENDED_MAX)]:
            del self._runs[key]

    def _by_group(self, sources: Collection[Any]) -> dict[str, dict[TopicPartition, int]]:
        """What is processed of each partition, by group; of a topic that is read twice in one query, the lesser."""
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
            run.committer.decline(f"another running query commits the topic {topic} to the group {group}: give each query its own")
        return mine


def parse_offsets(text: str | None) -> dict[TopicPartition, int]:
    """The offsets of a Kafka source, Spark's own or ours, as JSON; nothing when they are another kind of source's, or none yet."""
    try:
        topics = json.loads(text or "null")
        found = {
            TopicPartition(topic, int(number)): offset
            for topic, numbers in topics.items()
            if not topic.startswith("#")  # ours says more than offsets in such places
            for number, offset in numbers.items()
        }
    except (ValueError, AttributeError):
        return {}
    return found if all(type(offset) is int and offset >= 0 for offset in found.values()) else {}


def _is_untouched(source: Any) -> bool:
    """Whether a source is where its new query started: its first batch, and no rows in it."""
    return source.startOffset in (None, "None", "null") and source.numInputRows == 0
