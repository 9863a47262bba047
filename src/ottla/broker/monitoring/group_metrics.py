"""The snapshot of the groups as Prometheus metrics: `ottla_group_*` with group id and cause, and the names of Kafka's JMX exporters.

Also under the names of other tools, so that dashboards made for those tools work unchanged: Burrow, KMinion, kafka-lag-exporter
(klag-exporter uses the same names) and kafka_exporter (also for kafbat's UI), each with its own labels; no two of them share a name.
docs/metrics.md lists the metrics of theirs that are missing here. The size of the snapshot bounds the number of series.

`ottla watch` serves them too, of the snapshot that it makes of another cluster, without those that only coordinators know.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)

from ottla.broker.monitoring.group_snapshot import DURATIONS_S, PHASES, BrokerRow, CauseKey, Durations, GroupRow, GroupsSnapshot
from ottla.groups.classic.group import CLASSIC
from ottla.groups.classic.states import GroupState
from ottla.groups.consumer.group import CONSUMER, CONSUMER_STATES
from ottla.history.verdicts.policy import planned_of_trigger
from ottla.protocol.model import TopicPartition

CLASSIC_STATES: Final = tuple(state.value for state in GroupState)
_PLANNED: Final = {True: "true", False: "false", None: "unknown"}

PARTITIONS_MAX: Final = 1_000
"""Partitions whose first and last offsets are shown: the largest."""


def group_metrics(snapshot: GroupsSnapshot, now_ms: int) -> Iterator[Metric]:
    """The metrics of one snapshot."""
    yield GaugeMetricFamily("ottla_groups_age_seconds", "How old the figures of the groups are.", max(0, now_ms - snapshot.at_ms) / 1000)
    yield GaugeMetricFamily(
        "ottla_groups_look_seconds", "How long the last sample of the groups kept the broker's loop busy.", snapshot.took_s
    )
    yield GaugeMetricFamily("ottla_groups_left_out", "Groups that are not listed one by one.", snapshot.groups_left_out)
    left_out = sum(group.offsets_left_out for group in snapshot.groups)
    yield GaugeMetricFamily("ottla_group_offsets_left_out", "Committed offsets of listed groups that are not listed one by one.", left_out)
    yield from _all_groups(snapshot)
    yield from _one_by_one(snapshot.groups)
    yield from _rebalances(snapshot.groups)
    yield from _offsets(snapshot.groups)
    if snapshot.is_of_coordinators:
        yield from _known_to_coordinators(snapshot.groups)
        yield from _by_kafkas_names(snapshot)


def _all_groups(snapshot: GroupsSnapshot) -> Iterator[Metric]:
    counts = snapshot.counts
    yield _by_cause("ottla_rebalances", "Rebalances of all groups that began, by the cause that began them.", counts.rebalances)
    yield _by_cause("ottla_coalesced_triggers", "Triggers during a rebalance.", counts.coalesced)
    ended = CounterMetricFamily("ottla_rebalances_ended", "How rebalances ended (`ottla docs rebalances`).", labels=["outcome"])
    for outcome, count in sorted(counts.outcomes.items()):
        ended.add_metric([outcome], count)
    yield ended
    yield CounterMetricFamily(
        "ottla_static_rebalances_avoided", "Static members that came back without a rebalance.", counts.static_replaced
    )
    if snapshot.is_of_coordinators:
        yield CounterMetricFamily("ottla_offsets_expired", "Committed offsets that became too old.", counts.offsets_expired)
    durations = HistogramMetricFamily("ottla_rebalance_duration_seconds", "How long the phases of rebalances took.", labels=["phase"])
    for phase in PHASES:
        took = counts.durations.get(phase, Durations())
        buckets = [(str(bound), float(count)) for bound, count in zip(DURATIONS_S, took.up_to, strict=True)]
        durations.add_metric([phase], [*buckets, ("+Inf", float(took.times))], took.sum_s)
    yield durations


def _by_cause(name: str, documentation: str, by_cause: Mapping[CauseKey, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=["cause", "planned"])
    for cause, count in sorted(by_cause.items(), key=str):
        family.add_metric(_cause_labels(cause), count)
    return family


def _cause_labels(key: CauseKey) -> list[str]:
    return [key if isinstance(key, str) else key[0], planned(key)]


def planned(key: CauseKey) -> str:
    """Whether that says that it was planned: "true", "false" or "unknown" (docs/rebalances.md: with more evidence)."""
    return _PLANNED[planned_of_trigger(key) if isinstance(key, str) else key[1]]


def _one_by_one(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "ottla_group_info",
        "1; the group's coordinator, protocol type and assignor.",
        labels=["group", "coordinator_id", "protocol_type", "protocol"],
    )
    state = GaugeMetricFamily("ottla_group_state", "1 for the state that the group is in, 0 for the others.", labels=["group", "state"])
    numbers: dict[str, tuple[str, Callable[[GroupRow], float | None]]] = {
        "ottla_group_generation": ("Generation of the group.", lambda group: group.generation),
        "ottla_group_members": ("Members of the group.", lambda group: group.members),
        "ottla_group_static_members": ("Members with an instance id.", lambda group: group.static_members),
        "ottla_group_empty_members": ("Members without partitions.", lambda group: group.empty_members),
        "ottla_group_lag_sum": ("Records between the committed offset and the log end, over all partitions.", lambda group: group.lag_sum),
        "ottla_group_lag_max": ("Lag of the partition that lags most.", lambda group: group.lag_max),
    }
    families = {name: GaugeMetricFamily(name, documentation, labels=["group"]) for name, (documentation, _) in numbers.items()}
    for group in groups:
        info.add_metric([group.group_id, str(group.broker_id), group.protocol_type, group.protocol], 1)
        for name in CONSUMER_STATES if group.group_type == CONSUMER else CLASSIC_STATES:
            state.add_metric([group.group_id, name], int(group.state == name))
        for name, (_, value_of) in numbers.items():
            value = value_of(group)
            if value is not None:
                families[name].add_metric([group.group_id], value)
    yield from (info, state, *families.values())


def _rebalances(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    began = CounterMetricFamily(
        "ottla_group_rebalances", "Rebalances that began, by the cause that began them.", labels=["group", "cause", "planned"]
    )
    coalesced = CounterMetricFamily(
        "ottla_group_coalesced_triggers",
        "Triggers during a rebalance: Kafka's log does not have them.",
        labels=["group", "cause", "planned"],
    )
    ended = CounterMetricFamily("ottla_group_rebalances_ended", "How rebalances ended.", labels=["group", "outcome"])
    took = SummaryMetricFamily(
        "ottla_group_rebalance_duration_seconds", "How long the phases of the group's rebalances took.", labels=["group", "phase"]
    )
    avoided = CounterMetricFamily(
        "ottla_group_static_rebalances_avoided", "Static members that came back without a rebalance.", labels=["group"]
    )
    for group in groups:
        name, counts = group.group_id, group.counts
        for family, by_cause in ((began, counts.rebalances), (coalesced, counts.coalesced)):
            for cause, count in sorted(by_cause.items(), key=str):
                family.add_metric([name, *_cause_labels(cause)], count)
        for outcome, count in sorted(counts.outcomes.items()):
            ended.add_metric([name, outcome], count)
        for phase, durations in sorted(counts.durations.items()):
            took.add_metric([name, phase], durations.times, durations.sum_s)
        avoided.add_metric([name], counts.static_replaced)
    yield from (began, coalesced, ended, took, avoided)


def _known_to_coordinators(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    fenced = CounterMetricFamily(
        "ottla_group_static_fenced", "Requests of a second process under an instance id that is taken.", labels=["group"]
    )
    expired = CounterMetricFamily("ottla_group_offsets_expired", "Committed offsets that became too old.", labels=["group"])
    for group in groups:
        fenced.add_metric([group.group_id], group.counts.static_fenced)
        expired.add_metric([group.group_id], group.counts.offsets_expired)
    yield from (fenced, expired)


def _offsets(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    commits = CounterMetricFamily("ottla_group_offset_commits", "Offsets that were committed.", labels=["group"])
    labels = ["group", "topic", "partition"]
    lag = GaugeMetricFamily("ottla_group_lag", "Records between the committed offset and the log end.", labels=labels)
    offset = GaugeMetricFamily("ottla_group_committed_offset", "The committed offset: the next one to read.", labels=labels)
    for group in groups:
        if group.offset_commits is not None:
            commits.add_metric([group.group_id], group.offset_commits)
        for row in group.offsets:
            names = [group.group_id, row.topic, str(row.partition)]
            offset.add_metric(names, row.offset)
            if row.lag is not None:
                lag.add_metric(names, row.lag)
    yield from (commits, lag, offset)


def _by_kafkas_names(snapshot: GroupsSnapshot) -> Iterator[Metric]:
    manager, metrics = "kafka_coordinator_group_groupmetadatamanager", "kafka_server_group_coordinator_metrics"
    gauges: dict[str, tuple[str, Callable[[BrokerRow], float]]] = {
        f"{manager}_numoffsets": ("Committed offsets.", lambda broker: broker.offsets),
        f"{manager}_numgroups": ("Classic groups.", lambda broker: sum(broker.by_state.values())),
    } | {f"{manager}_numgroups{state.value.lower()}": (f"Groups that are {state.value}.", _in_state(state)) for state in GroupState}
    for name, (documentation, value_of) in gauges.items():
        family = GaugeMetricFamily(name, documentation, labels=["broker"])
        for broker in snapshot.brokers:
            family.add_metric([str(broker.broker_id)], value_of(broker))
        yield family
    groups = GaugeMetricFamily(f"{metrics}_group_count", "Groups by protocol.", labels=["broker", "protocol"])
    consumers = GaugeMetricFamily(f"{metrics}_consumer_group_count", "Consumer groups by state.", labels=["broker", "state"])
    partitions = GaugeMetricFamily(f"{metrics}_num_partitions", "Partitions of the offsets topic by state.", labels=["broker", "state"])
    commits = UnknownMetricFamily(f"{metrics}_offset_commit_count", "Offsets that were committed.", labels=["broker"])
    for broker in snapshot.brokers:
        by_type = {CLASSIC: broker.by_state, CONSUMER: broker.consumer_groups}
        for group_type, by_state in by_type.items():
            groups.add_metric([str(broker.broker_id), group_type], sum(by_state.values()))
        for state, count in broker.consumer_groups.items():
            consumers.add_metric([str(broker.broker_id), state.lower()], count)
        for state, count in sorted(broker.coordinators.items()):
            partitions.add_metric([str(broker.broker_id), state], count)
        commits.add_metric([str(broker.broker_id)], broker.offset_commits)
    yield from (groups, consumers, partitions, commits)
    counts = snapshot.counts
    for name, documentation, value in (
        ("offset_expiration_count", "Committed offsets that became too old.", counts.offsets_expired),
        ("group_completed_rebalance_count", "Rebalances of classic groups whose assignment was stored.", counts.classic_completed),
        ("consumer_group_rebalance_count", "New epochs of consumer groups, but for members that are gone.", counts.consumer_rebalances),
    ):
        yield UnknownMetricFamily(f"{metrics}_{name}", documentation, value=value)


def _in_state(state: GroupState) -> Callable[[BrokerRow], float]:
    return lambda broker: broker.by_state[state.value]


class PartitionBounds(Protocol):
    """Where a partition begins and ends; None: that is not known."""

    @property
    def name(self) -> TopicPartition: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def log_start_offset(self) -> int | None: ...
    @property
    def log_end_offset(self) -> int: ...


def alias_metrics(snapshot: GroupsSnapshot, partitions: Sequence[PartitionBounds]) -> Iterator[Metric]:
    """Every alias, from the snapshots of the groups and of the logs."""
    if len(partitions) > PARTITIONS_MAX:
        partitions = sorted(partitions, key=lambda partition: -partition.size_bytes)[:PARTITIONS_MAX]
    yield from _burrow(snapshot, partitions)
    yield from _kminion(snapshot)
    yield from _lag_exporter(snapshot, partitions)
    yield from _kafka_exporter(snapshot, partitions)


class _Family:
    """A gauge whose first labels are the same for all its samples."""

    def __init__(self, name: str, documentation: str, *labels: str, first: tuple[str, ...] = ()) -> None:
        self.family = GaugeMetricFamily(name, documentation, labels=labels)
        self._first = first

    def add(self, value: float | None, *labels: object) -> None:
        """Add one sample, unless `value` is None."""
        if value is not None:
            self.family.add_metric([*self._first, *map(str, labels)], value)


def _families(*families: _Family) -> Iterator[Metric]:
    for each in families:
        yield each.family


def _burrow(snapshot: GroupsSnapshot, partitions: Sequence[PartitionBounds]) -> Iterator[Metric]:
    first, group, each = (snapshot.cluster_id,), ("cluster", "consumer_group"), ("cluster", "consumer_group", "topic", "partition")
    status = _Family("burrow_kafka_consumer_status", "0 not found, 1 OK, 2 WARN, 3 ERR.", *group, first=first)
    total = _Family("burrow_kafka_consumer_lag_total", "Lag over all partitions.", *group, first=first)
    lag = _Family("burrow_kafka_consumer_partition_lag", "Lag of a partition.", *each, first=first)
    offset = _Family("burrow_kafka_consumer_current_offset", "Committed offset.", *each, first=first)
    of_partition = _Family("burrow_kafka_topic_partition_status", "1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.", *each, first=first)
    end = _Family("burrow_kafka_topic_partition_offset", "End of the partition.", "cluster", "topic", "partition", first=first)
    for row in snapshot.groups:
        status.add(row.status, row.group_id)
        total.add(row.lag_sum, row.group_id)
        for known in row.offsets:
            labels = (row.group_id, known.topic, known.partition)
            lag.add(known.lag, *labels)
            offset.add(known.offset, *labels)
            of_partition.add(known.status, *labels)
    for partition in partitions:
        end.add(partition.log_end_offset, *partition.name)
    return _families(status, total, lag, offset, of_partition, end)


def _kminion(snapshot: GroupsSnapshot) -> Iterator[Metric]:
    prefix, topic = "kminion_kafka_consumer_group", ("group_id", "topic_name")
    info = _Family(f"{prefix}_info", "1; what the group is.", "group_id", "protocol", "protocol_type", "state", "coordinator_id")
    members = _Family(f"{prefix}_members", "Members of the group.", "group_id")
    empty = _Family(f"{prefix}_empty_members", "Members without partitions.", "group_id")
    topic_members = _Family(f"{prefix}_topic_members", "Members that read the topic.", *topic)
    assigned = _Family(f"{prefix}_topic_assigned_partitions", "Partitions of the topic that a member reads.", *topic)
    offset_sum = _Family(f"{prefix}_topic_offset_sum", "Sum of the committed offsets.", *topic)
    partition_lag = _Family(f"{prefix}_topic_partition_lag", "Lag of a partition.", *topic, "partition_id")
    topic_lag = _Family(f"{prefix}_topic_lag", "Lag over all partitions of the topic.", *topic)
    commits = CounterMetricFamily(f"{prefix}_offset_commits", "Offsets that were committed.", labels=["group_id"])
    for row in snapshot.groups:
        info.add(1, row.group_id, row.protocol, row.protocol_type, row.state, row.broker_id)
        members.add(row.members, row.group_id)
        empty.add(row.empty_members, row.group_id)
        if row.offset_commits is not None:
            commits.add_metric([row.group_id], row.offset_commits)
        for each in row.topics:
            topic_members.add(each.members, row.group_id, each.topic)
            assigned.add(each.partitions, row.group_id, each.topic)
        for name, (offsets, lag) in row.by_topic.items():
            offset_sum.add(offsets, row.group_id, name)
            topic_lag.add(lag, row.group_id, name)
        for known in row.offsets:
            partition_lag.add(known.lag, row.group_id, known.topic, known.partition)
    yield GaugeMetricFamily("kminion_exporter_up", "1.", 1)
    yield from _families(info, members, empty, topic_members, assigned, offset_sum, partition_lag, topic_lag)
    yield commits


def _lag_exporter(snapshot: GroupsSnapshot, partitions: Sequence[PartitionBounds]) -> Iterator[Metric]:
    first, prefix = (snapshot.cluster_id,), "kafka_consumergroup_group"
    group, topic = ("cluster_name", "group"), ("cluster_name", "group", "topic")
    each = (*topic, "partition", "member_host", "consumer_id", "client_id")
    offset = _Family(f"{prefix}_offset", "Committed offset.", *each, first=first)
    lag = _Family(f"{prefix}_lag", "Lag of a partition.", *each, first=first)
    lag_max = _Family(f"{prefix}_max_lag", "Lag of the partition that lags most.", *group, first=first)
    lag_sum = _Family(f"{prefix}_sum_lag", "Lag over all partitions.", *group, first=first)
    topic_sum = _Family(f"{prefix}_topic_sum_lag", "Lag over all partitions of the topic.", *topic, first=first)
    latest = _Family("kafka_partition_latest_offset", "End of the partition.", "cluster_name", "topic", "partition", first=first)
    earliest = _Family("kafka_partition_earliest_offset", "First offset of it.", "cluster_name", "topic", "partition", first=first)
    for row in snapshot.groups:
        lag_max.add(row.lag_max, row.group_id)
        lag_sum.add(row.lag_sum, row.group_id)
        for name, (_, lag_of_topic) in row.by_topic.items():
            topic_sum.add(lag_of_topic, row.group_id, name)
        for known in row.offsets:
            member_id, client_id, client_host = known.owner
            labels = (row.group_id, known.topic, known.partition, client_host, member_id, client_id)
            offset.add(known.offset, *labels)
            lag.add(known.lag, *labels)
    for partition in partitions:
        latest.add(partition.log_end_offset, *partition.name)
        earliest.add(partition.log_start_offset, *partition.name)
    return _families(offset, lag, lag_max, lag_sum, topic_sum, latest, earliest)


def _kafka_exporter(snapshot: GroupsSnapshot, partitions: Sequence[PartitionBounds]) -> Iterator[Metric]:
    prefix, topic = "kafka_consumergroup", ("consumergroup", "topic")
    lag = _Family(f"{prefix}_lag", "Lag of a partition.", *topic, "partition")
    lag_sum = _Family(f"{prefix}_lag_sum", "Lag over all partitions of the topic.", *topic)
    offset = _Family(f"{prefix}_current_offset", "Committed offset.", *topic, "partition")
    offset_sum = _Family(f"{prefix}_current_offset_sum", "Sum of the committed offsets.", *topic)
    members = _Family(f"{prefix}_members", "Members of the group.", "consumergroup")
    current = _Family("kafka_topic_partition_current_offset", "End of the partition.", "topic", "partition")
    oldest = _Family("kafka_topic_partition_oldest_offset", "First offset of it.", "topic", "partition")
    counts = _Family("kafka_topic_partitions", "Partitions of the topic.", "topic")
    for row in snapshot.groups:
        members.add(row.members, row.group_id)
        for name, (offsets, lag_of_topic) in row.by_topic.items():
            lag_sum.add(lag_of_topic, row.group_id, name)
            offset_sum.add(offsets, row.group_id, name)
        for known in row.offsets:
            lag.add(known.lag, row.group_id, known.topic, known.partition)
            offset.add(known.offset, row.group_id, known.topic, known.partition)
    for name, count in snapshot.topics:
        counts.add(count, name)
    for partition in partitions:
        current.add(partition.log_end_offset, *partition.name)
        oldest.add(partition.log_start_offset, *partition.name)
    return _families(lag, lag_sum, offset, offset_sum, members, current, oldest, counts)
