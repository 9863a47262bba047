"""The metrics' names are those that people's dashboards have, and their number has a bound."""

import json
import urllib.request

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker import Broker
from ottla.broker import metrics as room
from ottla.broker.growth import Grown
from ottla.broker.health import STALE_MS_MAX, CleanerView, CleaningView, HealthView, PartitionView, picture
from ottla.broker.metrics import exposition, health_metrics, pages
from ottla.core.cleaning.health import PartitionFault
from ottla.core.config import ConfigError
from ottla.core.model import TopicPartition

NOW = 1_700_000_000_000
NAME = TopicPartition("__consumer_offsets", 12)


def view(partitions: int = 0) -> HealthView:
    cleaner = CleanerView(
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
        partitions={NAME: CleaningView(60, 50, 0.75, NOW - 3000, None)},
    )
    sizes = [PartitionView(NAME, True, 100, 5, 9), *(PartitionView(TopicPartition("t", n), False, n, 0, n) for n in range(partitions))]
    offline = (PartitionFault("d", 1, "the disk is full", NOW),)
    return picture(
        cleaner=cleaner, partitions=sizes, offline=offline, grown=lambda _: Grown(120, 1_800_000), log_directory="/d", now_ms=NOW
    )


def samples(seen: HealthView, now_ms: int = NOW) -> dict[str, float]:
    text = exposition([lambda: health_metrics(seen, now_ms)])().decode()
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
    monkeypatch.setattr(room, "PARTITIONS_MAX", 3)
    found = samples(view(partitions=10))
    assert sorted(name for name in found if name.startswith("kafka_log_log_size")) == [
        'kafka_log_log_size{partition="12",topic="__consumer_offsets"}',
        'kafka_log_log_size{partition="8",topic="t"}',
        'kafka_log_log_size{partition="9",topic="t"}',
    ]
    assert found["ottla_partitions_left_out"] == 8


def test_other_sources_add_their_own() -> None:
    text = exposition([lambda: health_metrics(view(), NOW), lambda: [GaugeMetricFamily("mine", "Mine.", value=3)]])()
    assert b"\nmine 3.0\n" in text


def test_the_pages_read_the_newest_picture() -> None:
    well = picture(
        cleaner=CleanerView(is_enabled=True), partitions=[], offline=[], grown=lambda _: Grown(0, 0), log_directory="/d", now_ms=NOW
    )
    newest = [well]
    served = pages(lambda: newest[-1], lambda: NOW)
    assert served["/health"]().status == 200
    assert b"\nottla_healthy 1.0\n" in served["/metrics"]().body
    newest.append(view())
    ill = served["/health"]()
    assert (ill.status, ill.content_type, json.loads(ill.body)["healthy"]) == (503, "application/json", False)
    assert b"\nottla_healthy 0.0\n" in served["/metrics"]().body


def test_aliases_can_be_left_out() -> None:
    served = pages(
        lambda: view(),
        lambda: NOW,
        lambda: [GaugeMetricFamily("mine", "Mine.", value=3)],
        aliases=lambda: [GaugeMetricFamily("theirs", "Mine, too.", value=3)],
    )
    assert b"\nmine 3.0\n" in served["/metrics"]().body
    assert b"\ntheirs 3.0\n" in served["/metrics"]().body
    assert b"\nmine 3.0\n" in served["/metrics/ottla"]().body
    assert b"theirs" not in served["/metrics/ottla"]().body


def test_a_broker_that_stands_still_is_ill() -> None:
    well = picture(
        cleaner=CleanerView(is_enabled=True), partitions=[], offline=[], grown=lambda _: Grown(0, 0), log_directory="/d", now_ms=NOW
    )
    served = pages(lambda: well, lambda: NOW + STALE_MS_MAX + 1)
    assert served["/health"]().status == 503
    assert b"\nottla_healthy 0.0\n" in served["/metrics"]().body


def test_a_broker_in_this_process_serves_them() -> None:
    with Broker(metrics="127.0.0.1:0") as broker:
        assert broker.metrics_url is not None
        assert broker.health.is_healthy
        with urllib.request.urlopen(broker.metrics_url, timeout=5) as answer:
            assert b"kafka_log_logcleaner_deadthreadcount 0.0" in answer.read()
        port = int(broker.metrics_url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            Broker(metrics=f"127.0.0.1:{port}").start()
    with Broker() as silent:
        assert silent.metrics_url is None
    with pytest.raises(ConfigError):
        Broker(metrics="9308")
