"""What `ottla watch --metrics` serves: the groups of each cluster under the names that an Ottla broker gives them, and the watch itself.

Groups and offsets are named by the same code as a broker's (broker.monitoring.group_metrics), from the same kind of snapshot, with the same
bounds. A snapshot is made after each look; a scrape reads the last one, in the server's thread.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.monitoring.group_metrics import PARTITIONS_MAX, alias_metrics, group_metrics
from ottla.broker.monitoring.group_sampler import GROUPS_MAX, OFFSETS_MAX, TOPICS_MAX, GroupAssignment, GroupHistory, group_assignment
from ottla.broker.monitoring.group_snapshot import NO_OWNER, CauseKey, Durations, EventCounts, GroupRow, GroupsSnapshot, OffsetRow
from ottla.broker.monitoring.metrics_server import HttpResponse, MetricsServer, Page, exposition
from ottla.client.admin.values import DescribedGroup
from ottla.groups.snapshots import MemberAssignment
from ottla.history.alerts import GroupFacts
from ottla.history.burrow import group_status
from ottla.history.group_history import Rebalance
from ottla.history.incidents import Incident, IncidentKind
from ottla.history.live import LiveHistory
from ottla.history.sources.admin import GroupSnapshot
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE
from ottla.history.watch import Watch, WatchSummary
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import TopicPartition

CLUSTER: Final = "cluster"


class WatchedPartition(NamedTuple):
    """The end of a partition's log; the rest is not asked for."""

    name: TopicPartition
    log_end_offset: int
    log_start_offset: int | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """One cluster after a look, as it is served. lag_ms: how long the next record of (group, topic, partition) has waited, where known.

    deliveries: how often (what, outcome) was tried.
    """

    groups: GroupsSnapshot = field(default_factory=lambda: GroupsSnapshot(is_of_coordinators=False))
    ends: tuple[WatchedPartition, ...] = ()
    incidents: Mapping[tuple[str, str], int] = field(default_factory=dict)
    incidents_by_kind: Mapping[str, int] = field(default_factory=dict)
    lag_ms: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    summary: WatchSummary = field(default_factory=WatchSummary)
    is_up: bool = False
    archive_bytes: int | None = None
    alerts: Mapping[str, int] = field(default_factory=dict)
    deliveries: Mapping[tuple[str, str], int] = field(default_factory=dict)


class GroupsOfWatch:
    """Makes the snapshot of the groups of one cluster. `cluster_id` is what Burrow's names have as their cluster."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._history = GroupHistory()
        self._all = EventCounts()
        self._counts: dict[str, EventCounts] = {}
        self._changed: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def sample(self, watch: Watch, facts: Mapping[str, GroupFacts], now_ms: int) -> tuple[GroupsSnapshot, tuple[WatchedPartition, ...]]:
        """The groups and the ends of their partitions as of the watch's last look."""
        assert watch.live is not None, "metrics need the history"
        for rebalance in watch.live.take_settled(now_ms):
            for counts in (self._all, self._counts.setdefault(rebalance.group, EventCounts())):
                _count(counts, rebalance)
        by_group = {snapshot.group: snapshot for snapshot in watch.snapshots if snapshot.group in watch.poller.described}
        self._counts = {group: counts for group, counts in self._counts.items() if group in by_group}
        ranked = sorted(by_group.values(), key=lambda each: (-(facts[each.group].lag or 0), -len(each.members), each.group))
        rows, offsets_left = [], OFFSETS_MAX
        for snapshot in ranked[:GROUPS_MAX]:
            described = watch.poller.described[snapshot.group]
            row = self._row(snapshot, described, facts[snapshot.group], watch.live, offsets_left, now_ms)
            offsets_left -= len(row.offsets)
            rows.append(row)
        self._history.forget_others()
        listed = {(row.group_id, TopicPartition(each.topic, each.partition)) for row in rows for each in row.offsets}
        self._changed = {name: known for name, known in self._changed.items() if name in listed}
        topics = sorted(watch.poller.topics.items())[:TOPICS_MAX]
        ends = {partition: end for snapshot in ranked for partition, end in snapshot.ends.items()}
        groups = GroupsSnapshot(
            at_ms=now_ms,
            took_s=watch.look_ms / 1000,
            cluster_id=self._cluster_id,
            groups=tuple(rows),
            groups_left_out=len(ranked) - len(rows),
            counts=self._all.copy(),
            topics=tuple((name, len(topic.leaders)) for name, topic in topics),
            is_of_coordinators=False,
        )
        return groups, tuple(WatchedPartition(partition, end) for partition, end in sorted(ends.items())[:PARTITIONS_MAX])

    def _row(
        self, snapshot: GroupSnapshot, described: DescribedGroup, facts: GroupFacts, live: LiveHistory, offsets_max: int, now_ms: int
    ) -> GroupRow:
        assignment = _assignment(described)
        by_topic: dict[str, tuple[int, int]] = {}
        offsets: list[OffsetRow] = []
        for partition, committed in sorted(snapshot.committed.items()):
            lag = facts.partitions[partition].lag if partition in facts.partitions else None
            offset_sum, lag_sum = by_topic.get(partition.topic, (0, 0))
            by_topic[partition.topic] = offset_sum + committed, lag_sum + (lag or 0)
            if len(offsets) < offsets_max:
                value = OffsetValue(committed, -1, "", self._committed_ms(snapshot.group, partition, committed, live, now_ms))
                end = snapshot.ends.get(partition)
                shown_end = committed if end is None else end
                status = self._history.status(snapshot.group, *partition, value, shown_end, now_ms)
                owner = assignment.owners.get(partition, NO_OWNER)
                offsets.append(OffsetRow(*partition, committed, None, end, lag, owner, status))
        lags = [each.lag for each in facts.partitions.values()]
        seen = live.commits.get(snapshot.group)
        generation = snapshot.epoch if snapshot.epoch is not None else live.generations.get(snapshot.group)
        return GroupRow(
            group_id=snapshot.group,
            broker_id=described.coordinator.broker_id,
            state=snapshot.state,
            generation=generation,
            protocol_type=described.protocol_type,
            protocol=snapshot.protocol,
            members=len(snapshot.members),
            static_members=sum(member.instance_id is not None for member in snapshot.members),
            empty_members=assignment.empty_members,
            lag_sum=sum(lags),
            lag_max=max(lags, default=0),
            offset_commits=None if seen is None else seen.count,
            offsets=tuple(offsets),
            offsets_left_out=len(snapshot.committed) - len(offsets),
            by_topic=by_topic,
            topics=assignment.topics,
            status=group_status(each.status for each in offsets),
            counts=self._counts.get(snapshot.group, EventCounts()).copy(),
        )

    def _committed_ms(self, group: str, partition: TopicPartition, committed: int, live: LiveHistory, now_ms: int) -> int:
        """When the offset was committed: when its record was read, or else when the offset was first seen."""
        seen = live.commits.get(group)
        if seen is not None and partition in seen.last:
            return seen.last[partition][1]
        known = self._changed.get((group, partition))
        if known is None or known[0] != committed:
            known = self._changed[group, partition] = committed, now_ms
        return known[1]


def _assignment(described: DescribedGroup) -> GroupAssignment:
    members = (
        MemberAssignment(
            member.member_id,
            member.client_id,
            member.host,
            tuple((topic, number) for topic, numbers in member.partitions.items() for number in numbers),
        )
        for member in described.members
    )
    return group_assignment(0, members)


def _count(counts: EventCounts, rebalance: Rebalance) -> None:
    verdict = rebalance.verdict
    if verdict.kind == AVOIDED:
        counts.static_replaced += 1
    if verdict.kind != REBALANCE:
        return
    key: CauseKey = (verdict.cause.value, verdict.planned)
    counts.rebalances[key] = counts.rebalances.get(key, 0) + 1
    for cause in verdict.contributing:
        counts.coalesced[cause.value] = counts.coalesced.get(cause.value, 0) + 1
    counts.outcomes[verdict.outcome] = counts.outcomes.get(verdict.outcome, 0) + 1
    for phase, duration_ms in (("join", rebalance.join_ms), ("sync", rebalance.sync_ms)):
        if duration_ms is not None:
            counts.durations[phase] = counts.durations.get(phase, Durations()).plus(duration_ms / 1000)


def watch_metrics(state: WatchState) -> Iterator[Metric]:
    """What a broker does not serve: incidents, time lag, and the watch itself."""
    open_ = GaugeMetricFamily("ottla_group_incidents_open", "Incidents of the group that are open.", labels=["group", "kind"])
    for (group, kind), count in sorted(state.incidents.items()):
        open_.add_metric([group, kind], count)
    of_all = GaugeMetricFamily("ottla_incidents_open", "Incidents that are open; one of several groups counts once.", labels=["kind"])
    for each in IncidentKind:
        of_all.add_metric([each.value], state.incidents_by_kind.get(each.value, 0))
    waited = GaugeMetricFamily(
        "ottla_group_lag_seconds", "How long the next record of the group has waited.", labels=["group", "topic", "partition"]
    )
    longest: dict[str, int] = {}
    for (group, topic, partition), lag_ms in sorted(state.lag_ms.items()):
        waited.add_metric([group, topic, str(partition)], lag_ms / 1000)
        longest[group] = max(longest.get(group, 0), lag_ms)
    longest_family = GaugeMetricFamily("ottla_group_lag_seconds_max", "The same of the partition that waits longest.", labels=["group"])
    for group, lag_ms in sorted(longest.items()):
        longest_family.add_metric([group], lag_ms / 1000)
    yield from (open_, of_all, waited, longest_family)
    yield from _of_watch(state)


def _of_watch(state: WatchState) -> Iterator[Metric]:
    summary = state.summary
    yield GaugeMetricFamily("ottla_watch_up", "1 if the cluster responded to the last look, else 0.", int(state.is_up))
    yield CounterMetricFamily("ottla_watch_looks", "Looks that succeeded.", summary.looks)
    yield CounterMetricFamily("ottla_watch_failed_looks", "Looks to which the cluster did not respond.", summary.failed_looks)
    yield CounterMetricFamily("ottla_watch_records", "Records that were stored.", summary.records)
    yield CounterMetricFamily("ottla_watch_stored_bytes", "Bytes that were added to the archive.", summary.stored_bytes)
    if summary.last_look_ms is not None:
        yield GaugeMetricFamily("ottla_watch_last_look_timestamp_seconds", "When the last look ended.", summary.last_look_ms / 1000)
    if summary.reads_topic is not None:
        reads = int(summary.reads_topic)
        yield GaugeMetricFamily("ottla_watch_reads_offsets_topic", "0 if __consumer_offsets may not be read: groups are polled.", reads)
    if state.archive_bytes is not None:
        yield GaugeMetricFamily("ottla_watch_archive_bytes", "Size of the archive, where a retention is set.", state.archive_bytes)
    firing = GaugeMetricFamily("ottla_watch_alerts_firing", "Alerts that fire, by rule.", labels=["rule"])
    for rule, count in state.alerts.items():
        firing.add_metric([rule], count)
    sent = CounterMetricFamily("ottla_watch_alert_deliveries", "Alerts passed on, by way and outcome.", labels=["way", "outcome"])
    for (way, outcome), count in sorted(state.deliveries.items()):
        sent.add_metric([way, outcome], count)
    yield from (firing, sent)


def count_incidents(incidents: Iterable[Incident], listed: Container[str]) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Open incidents by (group, kind), of the groups that are listed one by one; and by kind, of all."""
    by_group: Counter[tuple[str, str]] = Counter()
    by_kind: Counter[str] = Counter()
    for incident in incidents:
        by_kind[incident.kind.value] += 1
        by_group.update((group, incident.kind.value) for group in incident.groups if group in listed)
    return by_group, by_kind


def bounded_lag_ms(groups: GroupsSnapshot, live: LiveHistory, now_ms: int) -> dict[tuple[str, str, int], int]:
    """How long the next record has waited, of the offsets that are listed one by one."""
    found: dict[tuple[str, str, int], int] = {}
    for row in groups.groups:
        for each in row.offsets:
            if each.log_end is not None:
                lag_ms = live.log_ends.waited_ms(TopicPartition(each.topic, each.partition), each.offset, each.log_end, now_ms)
                if lag_ms is not None:
                    found[row.group_id, each.topic, each.partition] = lag_ms
    return found


Clusters = Sequence[tuple[str | None, Callable[[], WatchState]]]
"""Names, None for the only cluster without one, and what gives the last state."""


def serve(host: str, port: int, clusters: Clusters, clock: Callable[[], int]) -> MetricsServer:
    """Serve /metrics and /metrics/ottla until the server is closed. Raises OSError."""
    exposed = exposition([lambda: _merged(clusters, clock, with_aliases=True)])
    exposed_own = exposition([lambda: _merged(clusters, clock, with_aliases=False)])
    pages: dict[str, Page] = {
        "/metrics": lambda: HttpResponse(200, CONTENT_TYPE_LATEST, exposed()),
        "/metrics/ottla": lambda: HttpResponse(200, CONTENT_TYPE_LATEST, exposed_own()),
    }
    return MetricsServer(host, port, pages)


def _merged(clusters: Clusters, clock: Callable[[], int], *, with_aliases: bool) -> Iterable[Metric]:
    """The metrics of all clusters, each name once; samples of a named cluster have its name as a label."""
    families: dict[str, Metric] = {}
    for name, state_of in clusters:
        state = state_of()
        sources = [group_metrics(state.groups, clock()), watch_metrics(state)]
        if with_aliases:
            sources.append(alias_metrics(state.groups, state.ends))
        for source in sources:
            for metric in source:
                if name is not None:
                    metric.samples = [sample._replace(labels={CLUSTER: name} | sample.labels) for sample in metric.samples]
                known = families.setdefault(metric.name, metric)
                if known is not metric:
                    known.samples += metric.samples
    return families.values()
