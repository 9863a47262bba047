"""The health snapshot as Prometheus metrics: under the names of Kafka's JMX exporters, and as `ottla_*` where Kafka has no name.

The number of series is bounded: the largest PARTITIONS_MAX partitions are listed, and the topics of the snapshot; a metric has the number
of those left out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.monitoring.health import HealthSnapshot, PartitionSnapshot
from ottla.log.cleaner.health import CleanerState
from ottla.log.cleaner.snapshot import CleanerSnapshot

PARTITIONS_MAX: Final = 1_000


def health_metrics(snapshot: HealthSnapshot, now_ms: int) -> Iterator[Metric]:
    """The metrics of one snapshot."""
    yield _gauge("ottla_healthy", "1 when /health has no unhealthy finding, else 0.", int(snapshot.as_of(now_ms).is_healthy))
    yield _gauge("ottla_health_age_seconds", "How old the snapshot is.", max(0, now_ms - snapshot.at_ms) / 1000)
    yield from _cleaner_by_kafkas_names(snapshot.cleaner, snapshot.log_directory, now_ms)
    yield from _cleaner(snapshot.cleaner)
    yield _gauge("kafka_server_replicamanager_offlinereplicacount", "Partitions that are offline.", len(snapshot.offline))
    yield from _topics(snapshot)
    yield from _partitions(snapshot.partitions)


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value=value)


def _cleaner_by_kafkas_names(cleaner: CleanerSnapshot, log_directory: str, now_ms: int) -> Iterator[Metric]:
    manager, own = "kafka_log_logcleanermanager", "kafka_log_logcleaner"
    looked_ms = now_ms if cleaner.looked_ms is None else cleaner.looked_ms
    yield _gauge(f"{manager}_max_dirty_percent", "Dirty share of the dirtiest log, in percent.", 100 * cleaner.max_dirty_ratio)
    yield _gauge(f"{manager}_time_since_last_run_ms", "Since the cleaner last looked for work, in ms.", max(0, now_ms - looked_ms))
    for name, documentation, value in (
        ("uncleanable_partitions_count", "Partitions whose cleaning failed.", len(cleaner.uncleanable)),
        ("uncleanable_bytes", "Bytes in partitions whose cleaning failed.", cleaner.uncleanable_bytes),
    ):
        family = GaugeMetricFamily(f"{manager}_{name}", documentation, labels=["logDirectory"])
        family.add_metric([log_directory], value)
        yield family
    yield _gauge(f"{own}_deadthreadcount", "Threads of the cleaner that died.", cleaner.dead_threads)
    yield _gauge(f"{own}_cleaner_recopy_percent", "Bytes written for bytes read in the last cleaning.", 100 * cleaner.recopy_ratio)
    yield _gauge(
        f"{own}_max_buffer_utilization_percent", "How full the table of keys was in the last cleaning.", 100 * cleaner.buffer_ratio
    )
    yield _gauge(f"{own}_max_clean_time_secs", "How long the last cleaning took.", cleaner.last_clean_ms / 1000)
    yield _gauge(f"{own}_max_compaction_delay_secs", "Delay beyond max.compaction.lag.ms.", cleaner.max_compaction_delay_ms / 1000)


def _cleaner(cleaner: CleanerSnapshot) -> Iterator[Metric]:
    yield _gauge(
        "ottla_cleaner_running", "1 while the cleaner is alive, 0 when it is off or dead.", int(cleaner.state is CleanerState.RUNNING)
    )
    yield _gauge("ottla_cleaner_partitions_at_work", "Partitions that are being cleaned now.", len(cleaner.at_work))
    if cleaner.cleaned_ms is not None:
        yield _gauge("ottla_cleaner_last_cleaned_timestamp_seconds", "When the last cleaning ended.", cleaner.cleaned_ms / 1000)
    for name, documentation, value in (
        ("ottla_cleaner_cleanings", "Cleanings that were finished.", cleaner.cleanings),
        ("ottla_cleaner_read_bytes", "Bytes of log that cleaning read.", cleaner.read_bytes),
        ("ottla_cleaner_written_bytes", "Bytes of log that cleaning wrote.", cleaner.written_bytes),
    ):
        yield CounterMetricFamily(name, documentation, value=value)


def _topics(snapshot: HealthSnapshot) -> Iterator[Metric]:
    yield _gauge("ottla_topics_left_out", "Topics that are not listed one by one.", snapshot.topics_left_out)
    names: dict[str, tuple[str, Callable[[Any], float | None]]] = {
        "ottla_topic_partitions": ("Partitions of the topic that are in use.", lambda topic: topic.partitions),
        "ottla_topic_size_bytes": ("Size of the topic's logs.", lambda topic: topic.size_bytes),
        "ottla_topic_growth_bytes_per_hour": ("Growth over the last hour.", lambda topic: topic.growth_bytes_per_hour),
    }
    compacted: dict[str, tuple[str, Callable[[Any], float | None]]] = {
        "ottla_topic_dirty_bytes": ("Bytes not cleaned yet.", lambda topic: topic.dirty_bytes),
        "ottla_topic_cleanable_bytes": ("Bytes that a cleaning could begin with now.", lambda topic: topic.cleanable_bytes),
        "ottla_topic_cleaning_overdue_seconds": ("For how long a cleaning has been due.", lambda topic: topic.overdue_ms / 1000),
    }
    for (name, (documentation, value_of)), topics in (
        *((each, snapshot.topics) for each in names.items()),
        *((each, tuple(topic for topic in snapshot.topics if topic.is_compacted)) for each in compacted.items()),
    ):
        family = GaugeMetricFamily(name, documentation, labels=["topic"])
        for topic in topics:
            value = value_of(topic)
            if value is not None:
                family.add_metric([topic.name], value)
        yield family


def _partitions(partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
    left_out = len(partitions) - PARTITIONS_MAX
    if left_out > 0:
        partitions = sorted(partitions, key=lambda partition: -partition.size_bytes)[:PARTITIONS_MAX]
    yield _gauge("ottla_partitions_left_out", "Partitions that are not listed one by one.", max(0, left_out))
    size = GaugeMetricFamily("kafka_log_log_size", "Size of the log, in bytes.", labels=["topic", "partition"])
    start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset of the log.", labels=["topic", "partition"])
    end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset that the next record gets.", labels=["topic", "partition"])
    for partition in partitions:
        labels = [partition.name.topic, str(partition.name.partition)]
        size.add_metric(labels, partition.size_bytes)
        start.add_metric(labels, partition.log_start_offset)
        end.add_metric(labels, partition.log_end_offset)
    yield from (size, start, end)
