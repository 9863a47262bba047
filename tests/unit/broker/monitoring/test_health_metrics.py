"""The metrics' names are those that people's dashboards have, and their number has a bound."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.monitoring import health_metrics
from ottla.broker.monitoring.health import (
    CleanerSnapshot,
    CleaningSnapshot,
    HealthSnapshot,
    PartitionSnapshot,
    health_snapshot,
)
from ottla.broker.monitoring.metrics_pages import exposition
from ottla.broker.monitoring.topic_growth import Growth
from ottla.log.cleaner.health import PartitionFault
from ottla.protocol.model import TopicPartition

NOW = 1_700_000_000_000
NAME = TopicPartition("__consumer_offsets", 12)


def view(partitions: int = 0) -> HealthSnapshot:
    cleaner = CleanerSnapshot(
        is_enabled=True,
        threads=2,
        dead_threads=1,
        looked_ms=NOW - 7_000,
        cleaned_ms=NOW - 60_000,
        cleanings=4,
        read_bytes=1000,
        written_bytes=250,
        recopy_ratio=0.25,
        buffer_ratio=0.5,
        last_clean_ms=1500,
        max_compaction_delay_ms=2500,
        max_dirty_ratio=0.75,
        uncleanable=(PartitionFault("u", 7, "damaged", NOW),),
        uncleanable_bytes=77,
        partitions={NAME: CleaningSnapshot(60, 50, 0.75, NOW - 3000, None)},
    )
    largest = PartitionSnapshot(NAME, True, 100, 5, 9)
    sizes = [largest, *(PartitionSnapshot(TopicPartition("t", n), False, n, 0, n) for n in range(partitions))]
    offline = (PartitionFault("d", 1, "the disk is full", NOW),)
    return health_snapshot(
        cleaner=cleaner, partitions=sizes, offline=offline, growth=lambda _: Growth(120, 1_800_000), log_directory="/d", now_ms=NOW
    )


def samples(seen: HealthSnapshot, now_ms: int = NOW) -> dict[str, float]:
    text = exposition([lambda: health_metrics.health_metrics(seen, now_ms)])().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_every_metric() -> None:
    assert samples(view(), NOW + 2000) == {
        "ottla_healthy": 0,
        "ottla_health_age_seconds": 2,
        "kafka_log_logcleanermanager_max_dirty_percent": 75,
        "kafka_log_logcleanermanager_time_since_last_run_ms": 9_000,
        'kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/d"}': 1,
        'kafka_log_logcleanermanager_uncleanable_bytes{logDirectory="/d"}': 77,
        "kafka_log_logcleaner_deadthreadcount": 1,
        "kafka_log_logcleaner_cleaner_recopy_percent": 25,
        "kafka_log_logcleaner_max_buffer_utilization_percent": 50,
        "kafka_log_logcleaner_max_clean_time_secs": 1.5,
        "kafka_log_logcleaner_max_compaction_delay_secs": 2.5,
        "ottla_cleaner_running": 1,
        "ottla_cleaner_partitions_at_work": 0,
        "ottla_cleaner_last_cleaned_timestamp_seconds": (NOW - 60_000) / 1000,
        "ottla_cleaner_cleanings_total": 4,
        "ottla_cleaner_read_bytes_total": 1000,
        "ottla_cleaner_written_bytes_total": 250,
        "kafka_server_replicamanager_offlinereplicacount": 1,
        "ottla_topics_left_out": 0,
        'ottla_topic_partitions{topic="__consumer_offsets"}': 1,
        'ottla_topic_size_bytes{topic="__consumer_offsets"}': 100,
        'ottla_topic_growth_bytes_per_hour{topic="__consumer_offsets"}': 240,
        'ottla_topic_dirty_bytes{topic="__consumer_offsets"}': 60,
        'ottla_topic_cleanable_bytes{topic="__consumer_offsets"}': 50,
        'ottla_topic_cleaning_overdue_seconds{topic="__consumer_offsets"}': 3,
        "ottla_partitions_left_out": 0,
        'kafka_log_log_size{partition="12",topic="__consumer_offsets"}': 100,
        'kafka_log_log_logstartoffset{partition="12",topic="__consumer_offsets"}': 5,
        'kafka_log_log_logendoffset{partition="12",topic="__consumer_offsets"}': 9,
    }


def test_a_topic_that_is_not_compacted_is_not_dirty() -> None:
    found = samples(view(partitions=1))
    assert 'ottla_topic_size_bytes{topic="t"}' in found
    assert 'ottla_topic_dirty_bytes{topic="t"}' not in found


def test_only_the_largest_partitions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_metrics, "PARTITIONS_MAX", 3)
    found = samples(view(partitions=10))
    assert sorted(name for name in found if name.startswith("kafka_log_log_size")) == [
        'kafka_log_log_size{partition="12",topic="__consumer_offsets"}',
        'kafka_log_log_size{partition="8",topic="t"}',
        'kafka_log_log_size{partition="9",topic="t"}',
    ]
    assert found["ottla_partitions_left_out"] == 8
