"""The snapshot of the groups as Prometheus metrics: `ottla_group_*` with group id and cause, and the names of Kafka's JMX exporters.

The size of the snapshot bounds the number of series. Names of other tools are in group_aliases.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
    UnknownMetricFamily,
)

from ottla.broker.monitoring.group_snapshot import DURATIONS_S, PHASES, BrokerRow, Durations, GroupRow, GroupsSnapshot
from ottla.groups.classic.states import GroupState
from ottla.history.verdicts.policy import planned_of_trigger

_PLANNED: Final = {True: "true", False: "false", None: "unknown"}


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
    yield CounterMetricFamily("ottla_offsets_expired", "Committed offsets that became too old.", counts.offsets_expired)
    durations = HistogramMetricFamily("ottla_rebalance_duration_seconds", "How long the phases of rebalances took.", labels=["phase"])
    for phase in PHASES:
        took = counts.durations.get(phase, Durations())
        buckets = [(str(bound), float(count)) for bound, count in zip(DURATIONS_S, took.up_to, strict=True)]
        durations.add_metric([phase], [*buckets, ("+Inf", float(took.times))], took.sum_s)
    yield durations


def _by_cause(name: str, documentation: str, by_cause: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=["cause", "planned"])
    for cause, count in sorted(by_cause.items()):
        family.add_metric([cause, planned(cause)], count)
    return family


def planned(cause: str) -> str:
    """Whether a trigger's code alone says that it was planned: "true", "false" or "unknown" (docs/rebalances.md: with more evidence)."""
    return _PLANNED[planned_of_trigger(cause)]


def _one_by_one(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "ottla_group_info",
        "1; the group's coordinator, protocol type and assignor.",
        labels=["group", "coordinator_id", "protocol_type", "protocol"],
    )
    state = GaugeMetricFamily("ottla_group_state", "1 for the state that the group is in, 0 for the others.", labels=["group", "state"])
    numbers: dict[str, tuple[str, Callable[[GroupRow], float]]] = {
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
        for each in GroupState:
            state.add_metric([group.group_id, each.value], int(group.state == each.value))
        for name, (_, value_of) in numbers.items():
            families[name].add_metric([group.group_id], value_of(group))
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
    fenced = CounterMetricFamily(
        "ottla_group_static_fenced", "Requests of a second process under an instance id that is taken.", labels=["group"]
    )
    for group in groups:
        name, counts = group.group_id, group.counts
        for family, by_cause in ((began, counts.rebalances), (coalesced, counts.coalesced)):
            for cause, count in sorted(by_cause.items()):
                family.add_metric([name, cause, planned(cause)], count)
        for outcome, count in sorted(counts.outcomes.items()):
            ended.add_metric([name, outcome], count)
        for phase, durations in sorted(counts.durations.items()):
            took.add_metric([name, phase], durations.times, durations.sum_s)
        avoided.add_metric([name], counts.static_replaced)
        fenced.add_metric([name], counts.static_fenced)
    yield from (began, coalesced, ended, took, avoided, fenced)


def _offsets(groups: Iterable[GroupRow]) -> Iterator[Metric]:
    commits = CounterMetricFamily("ottla_group_offset_commits", "Offsets that were committed.", labels=["group"])
    expired = CounterMetricFamily("ottla_group_offsets_expired", "Committed offsets that became too old.", labels=["group"])
    labels = ["group", "topic", "partition"]
    lag = GaugeMetricFamily("ottla_group_lag", "Records between the committed offset and the log end.", labels=labels)
    offset = GaugeMetricFamily("ottla_group_committed_offset", "The committed offset: the next one to read.", labels=labels)
    for group in groups:
        commits.add_metric([group.group_id], group.offset_commits)
        expired.add_metric([group.group_id], group.counts.offsets_expired)
        for row in group.offsets:
            names = [group.group_id, row.topic, str(row.partition)]
            offset.add_metric(names, row.offset)
            if row.lag is not None:
                lag.add_metric(names, row.lag)
    yield from (commits, expired, lag, offset)


def _by_kafkas_names(snapshot: GroupsSnapshot) -> Iterator[Metric]:
    manager, metrics = "kafka_coordinator_group_groupmetadatamanager", "kafka_server_group_coordinator_metrics"
    gauges: dict[str, tuple[str, Callable[[BrokerRow], float]]] = {
        f"{manager}_numoffsets": ("Committed offsets.", lambda broker: broker.offsets),
        f"{manager}_numgroups": ("Groups.", lambda broker: broker.groups),
    } | {f"{manager}_numgroups{state.value.lower()}": (f"Groups that are {state.value}.", _in_state(state)) for state in GroupState}
    for name, (documentation, value_of) in gauges.items():
        family = GaugeMetricFamily(name, documentation, labels=["broker"])
        for broker in snapshot.brokers:
            family.add_metric([str(broker.broker_id)], value_of(broker))
        yield family
    groups = GaugeMetricFamily(f"{metrics}_group_count", "Groups by protocol.", labels=["broker", "protocol"])
    partitions = GaugeMetricFamily(f"{metrics}_num_partitions", "Partitions of the offsets topic by state.", labels=["broker", "state"])
    commits = UnknownMetricFamily(f"{metrics}_offset_commit_count", "Offsets that were committed.", labels=["broker"])
    for broker in snapshot.brokers:
        groups.add_metric([str(broker.broker_id), "classic"], broker.groups)
        for state, count in sorted(broker.coordinators.items()):
            partitions.add_metric([str(broker.broker_id), state], count)
        commits.add_metric([str(broker.broker_id)], broker.offset_commits)
    yield from (groups, partitions, commits)
    counts = snapshot.counts
    for name, documentation, value in (
        ("offset_expiration_count", "Committed offsets that became too old.", counts.offsets_expired),
        ("group_completed_rebalance_count", "Rebalances whose assignment was stored.", counts.outcomes.get("completed", 0)),
    ):
        yield UnknownMetricFamily(f"{metrics}_{name}", documentation, value=value)


def _in_state(state: GroupState) -> Callable[[BrokerRow], float]:
    return lambda broker: broker.by_state[state.value]
