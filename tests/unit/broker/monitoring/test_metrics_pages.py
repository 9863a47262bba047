"""The pages: what they show, and of which moment."""

import json
import urllib.request

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily

from ottla.broker import Broker
from ottla.broker.monitoring.health import STALE_MS_MAX, CleanerSnapshot, health_snapshot
from ottla.broker.monitoring.metrics_pages import exposition, pages
from ottla.broker.monitoring.topic_growth import Growth
from ottla.config import ConfigError
from ottla.log.cleaner.health import PartitionFault

NOW = 1_700_000_000_000
UNHEALTHY = health_snapshot(
    cleaner=CleanerSnapshot(is_enabled=True),
    partitions=[],
    offline=[PartitionFault("d", 1, "the disk is full", NOW)],
    growth=lambda _: Growth(0, 0),
    log_directory="/d",
    now_ms=NOW,
)


def test_every_source_adds_its_own() -> None:
    text = exposition([lambda: [GaugeMetricFamily("first", "First.", value=1)], lambda: [GaugeMetricFamily("mine", "Mine.", value=3)]])()
    assert b"\nfirst 1.0\n" in text
    assert b"\nmine 3.0\n" in text


def test_the_pages_read_the_newest_snapshot() -> None:
    healthy = health_snapshot(
        cleaner=CleanerSnapshot(is_enabled=True), partitions=[], offline=[], growth=lambda _: Growth(0, 0), log_directory="/d", now_ms=NOW
    )
    newest = [healthy]
    served = pages(lambda: newest[-1], lambda: NOW)
    assert served["/health"]().status == 200
    assert b"\nottla_healthy 1.0\n" in served["/metrics"]().body
    newest.append(UNHEALTHY)
    unhealthy = served["/health"]()
    assert (unhealthy.status, unhealthy.content_type, json.loads(unhealthy.body)["healthy"]) == (503, "application/json", False)
    assert b"\nottla_healthy 0.0\n" in served["/metrics"]().body


def test_aliases_can_be_left_out() -> None:
    served = pages(
        lambda: UNHEALTHY,
        lambda: NOW,
        lambda: [GaugeMetricFamily("mine", "Mine.", value=3)],
        aliases=lambda: [GaugeMetricFamily("theirs", "Mine, too.", value=3)],
    )
    assert b"\nmine 3.0\n" in served["/metrics"]().body
    assert b"\ntheirs 3.0\n" in served["/metrics"]().body
    assert b"\nmine 3.0\n" in served["/metrics/ottla"]().body
    assert b"theirs" not in served["/metrics/ottla"]().body


def test_a_broker_whose_loop_is_blocked_is_unhealthy() -> None:
    healthy = health_snapshot(
        cleaner=CleanerSnapshot(is_enabled=True), partitions=[], offline=[], growth=lambda _: Growth(0, 0), log_directory="/d", now_ms=NOW
    )
    served = pages(lambda: healthy, lambda: NOW + STALE_MS_MAX + 1)
    assert served["/health"]().status == 503
    assert b"\nottla_healthy 0.0\n" in served["/metrics"]().body


def test_a_broker_in_this_process_serves_them() -> None:
    with Broker(metrics="127.0.0.1:0") as broker:
        assert broker.metrics_url is not None
        assert broker.health.is_healthy
        with urllib.request.urlopen(broker.metrics_url, timeout=60) as answer:
            assert b"kafka_log_logcleaner_deadthreadcount 0.0" in answer.read()
        port = int(broker.metrics_url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            Broker(metrics=f"127.0.0.1:{port}").start()
    with Broker() as silent:
        assert silent.metrics_url is None
    with pytest.raises(ConfigError):
        Broker(metrics="9308")
