"""The metrics of the groups under the names of other tools, so that dashboards made for those tools work unchanged.

Burrow, KMinion, kafka-lag-exporter (klag-exporter uses the same names) and kafka_exporter (also for kafbat's UI), each with its own labels;
no two of them share a name. docs/metrics.md lists the metrics of theirs that are missing here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.monitoring.group_snapshot import GroupsSnapshot
from ottla.broker.monitoring.health import PartitionSnapshot

PARTITIONS_MAX: Final = 1_000
"""Partitions whose first and last offsets are shown: the largest."""


def alias_metrics(snapshot: GroupsSnapshot, partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
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


def _burrow(snapshot: GroupsSnapshot, partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
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


def _lag_exporter(snapshot: GroupsSnapshot, partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
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


def _kafka_exporter(snapshot: GroupsSnapshot, partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
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
