"""The HTTP server, its pages, and the metrics of the broker's health."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker import Broker
from ottla.broker.monitoring import metrics_server
from ottla.broker.monitoring.health import (
    STALE_MS_MAX,
    CleanerSnapshot,
    CleaningSnapshot,
    Growth,
    HealthSnapshot,
    PartitionSnapshot,
    health_snapshot,
)
from ottla.broker.monitoring.metrics_server import HttpResponse, MetricsServer, exposition, pages
from ottla.config import ConfigError
from ottla.log.cleaner.health import PartitionFault
from ottla.protocol.model import TopicPartition

NOW = 1_700_000_000_000
NAME = TopicPartition("__consumer_offsets", 12)

UNHEALTHY = health_snapshot(
    cleaner=CleanerSnapshot(is_enabled=True),
    partitions=[],
    offline=[PartitionFault("d", 1, "the disk is full", NOW)],
    growth=lambda _: Growth(0, 0),
    log_directory="/d",
    now_ms=NOW,
)


def broken() -> HttpResponse:
    raise ValueError("no figures today")


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    pages = {
        "/metrics": lambda: HttpResponse(200, "text/plain", b"up 1\n"),
        "/health": lambda: HttpResponse(503, "application/json", b'{"healthy": false}'),
        "/broken": broken,
        "/large": lambda: HttpResponse(200, "text/plain", bytes(5_000_000)),
    }
    made = MetricsServer("127.0.0.1", 0, pages)
    yield made
    made.close()


def get(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


def say(server: MetricsServer, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(data)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_pages(server: MetricsServer) -> None:
    assert get(server, "/metrics") == (200, "text/plain", b"up 1\n")
    assert get(server, "/metrics?name=up") == (200, "text/plain", b"up 1\n")
    status, kind, body = get(server, "/health")
    assert (status, kind, json.loads(body)) == (503, "application/json", {"healthy": False})
    assert len(get(server, "/large")[2]) == 5_000_000
    assert get(server, "/metrics", "HEAD") == (200, "text/plain", b"")


def test_a_path_that_does_not_exist(server: MetricsServer) -> None:
    assert get(server, "/")[0] == 404
    assert b"/metrics, /health" in get(server, "/")[2]
    assert get(server, "/metrics", "POST")[0] == 405


def test_a_page_that_cannot_be_made(server: MetricsServer, caplog: pytest.LogCaptureFixture) -> None:
    assert get(server, "/broken")[0] == 500
    assert "no figures today" in caplog.text
    assert get(server, "/metrics")[0] == 200


def test_bytes_that_are_no_request(server: MetricsServer) -> None:
    assert say(server, b"\x00\x01hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert say(server, b"GET /metrics SPDY\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert say(server, b"x" * (metrics_server.HEAD_BYTES_MAX * 4)) == b""
    assert get(server, "/metrics")[0] == 200


def test_a_client_that_says_nothing_is_closed(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "RESPONSE_SECONDS_MAX", 0.05)
    assert say(server, b"GET /metrics HTTP/1.1\r\n") == b""


def connect(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_do_not_keep_others_out(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS_MAX", 600)
    monkeypatch.setattr(metrics_server, "RESPONSE_SECONDS_MAX", 600)
    idle = [connect(server) for _ in range(3 * metrics_server.CONNECTIONS_MAX)]
    for _ in range(3):
        assert get(server, "/metrics") == (200, "text/plain", b"up 1\n")
    assert all(is_closed(client) for client in idle[: 2 * metrics_server.CONNECTIONS_MAX])
    idle[-1].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert idle[-1].recv(1000).startswith(b"HTTP/1.1 200 "), "the youngest are still there"
    for client in idle:
        client.close()


def test_connections_with_a_request_stay_longer_than_those_without(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "CONNECTIONS_MAX", 2)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", server.port))
    slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
    received = slow.recv(100)
    with connect(server) as idle, connect(server) as younger:
        assert is_closed(idle)
        younger.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert younger.recv(1000).startswith(b"HTTP/1.1 200 ")
    while more := slow.recv(65536):
        received += more
    assert len(received.partition(b"\r\n\r\n")[2]) == 5_000_000
    slow.close()


def test_readers_that_do_not_read_do_not_keep_others_out(server: MetricsServer) -> None:
    slow = [connect(server) for _ in range(metrics_server.CONNECTIONS_MAX)]
    for client in slow:
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert client.recv(1)
    assert get(server, "/metrics")[0] == 200
    for client in slow:
        client.close()


def test_no_request_in_time(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS_MAX", 0.05)
    assert say(server, b"GET /metrics HTTP/1.1\r\n") == b""


def test_a_taken_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        MetricsServer("127.0.0.1", taken.getsockname()[1], {})


def test_it_may_be_closed_twice(server: MetricsServer) -> None:
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


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
    text = exposition([lambda: metrics_server.health_metrics(seen, now_ms)])().decode()
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
    monkeypatch.setattr(metrics_server, "PARTITIONS_MAX", 3)
    found = samples(view(partitions=10))
    assert sorted(name for name in found if name.startswith("kafka_log_log_size")) == [
        'kafka_log_log_size{partition="12",topic="__consumer_offsets"}',
        'kafka_log_log_size{partition="8",topic="t"}',
        'kafka_log_log_size{partition="9",topic="t"}',
    ]
    assert found["ottla_partitions_left_out"] == 8


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


def test_who_is_not_allowed_reads_no_page() -> None:
    asked: list[str] = []
    server = MetricsServer(
        "127.0.0.1", 0, {"/metrics": lambda: HttpResponse(200, "text/plain", b"up 1\n")}, lambda at: bool(asked.append(at))
    )
    try:
        status, _, body = get(server, "/metrics")
    finally:
        server.close()
    assert (status, asked) == (403, ["127.0.0.1"])
    assert b"User:ANONYMOUS" in body
