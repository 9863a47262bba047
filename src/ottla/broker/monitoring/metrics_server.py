"""A small HTTP server with a thread and a loop of its own, for /metrics and /health: it does not use the broker's loop.

Its pages are functions that read frozen snapshots. A client gets one response, then its connection is closed. The number of connections,
the size of a request and its time are bounded.

/metrics, in Prometheus' text format, has several sources. The health snapshot is one: under the names of Kafka's JMX exporters, and as
`ottla_*` where Kafka has no name. The number of series is bounded: the largest PARTITIONS_MAX partitions are listed, and the topics of the
snapshot; a metric has the number of those left out.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.monitoring.health import HealthSnapshot, PartitionSnapshot
from ottla.broker.network.limits import limit_accept_errors
from ottla.log.cleaner.health import CleanerSnapshot, CleanerState

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
"""When there is one more, the oldest is closed: first of those that have not sent their request."""
HEAD_BYTES_MAX: Final = 16 * 1024
REQUEST_SECONDS_MAX: Final = 5
"""From connecting to the end of the request."""
RESPONSE_SECONDS_MAX: Final = 10
"""From connecting to the end of the response."""

PARTITIONS_MAX: Final = 1_000

Source = Callable[[], Iterable[Metric]]
"""Makes metrics from a frozen snapshot, in the thread that serves them."""


class HttpResponse(NamedTuple):
    """An HTTP response: status, content type and body."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[], HttpResponse]
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


_FORBIDDEN: Final = HttpResponse(
    403,
    _TEXT,
    b"The broker has an authorizer: allow User:ANONYMOUS to DESCRIBE the cluster from this host (ottla acls --add --allow-principal"
    b" User:ANONYMOUS --allow-host ADDRESS --operation Describe --cluster).\n",
)


class MetricsServer:
    """Serves `pages` by path until it is closed, to the addresses that `allows` names. Raises OSError when the address cannot be used."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page], allows: Callable[[str], bool] = lambda _: True) -> None:
        self._pages = pages
        self._allows = allows
        self._reading: dict[asyncio.StreamWriter, None] = {}
        self._writing: dict[asyncio.StreamWriter, None] = {}
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        failures: list[OSError] = []
        self.port = port
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(host, port, ready, failures), name="ottla-metrics", daemon=True)
        self._thread.start()
        ready.wait()
        if failures:
            self._thread.join()
            raise failures[0]

    def close(self) -> None:
        """Stop serving and wait for the thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = None

    def _run(self, host: str, port: int, ready: threading.Event, failures: list[OSError]) -> None:
        asyncio.run(self._serve(host, port, ready, failures))

    async def _serve(self, host: str, port: int, ready: threading.Event, failures: list[OSError]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        limit_accept_errors(self._loop)
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=HEAD_BYTES_MAX)
        except OSError as error:
            failures.append(error)
            ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._close_oldest()
        self._reading[writer] = None
        writer.transport.set_write_buffer_limits(0)  # so that `drain` waits until all is sent
        try:
            async with asyncio.timeout(RESPONSE_SECONDS_MAX):
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                self._reading.pop(writer, None)
                self._writing[writer] = None
                writer.write(_encoded(*self._answer(head, writer.get_extra_info("peername")[0])))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
            log.debug("a client of the metrics left before its response: %s", error)
        finally:
            self._reading.pop(writer, None)
            self._writing.pop(writer, None)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()

    def _close_oldest(self) -> None:
        """Close the oldest connections while there are too many, so that idle ones do not keep others out."""
        while len(self._reading) + len(self._writing) >= CONNECTIONS_MAX:
            group = self._reading or self._writing
            oldest = next(iter(group))
            del group[oldest]
            oldest.transport.abort()

    def _answer(self, head: bytes, address: str) -> tuple[HttpResponse, bool]:
        """The response to a request, and whether its body is to be sent."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HttpResponse(400, _TEXT, b"This is an HTTP server.\n"), True
        method, target = words[0], words[1].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return HttpResponse(405, _TEXT, b"Only GET is answered here.\n"), True
        page = self._pages.get(target)
        if page is None:
            return HttpResponse(404, _TEXT, f"There is {', '.join(self._pages)} here.\n".encode()), method == b"GET"
        try:
            return page() if self._allows(address) else _FORBIDDEN, method == b"GET"
        except Exception:
            log.exception("%s cannot be made", target)
            return HttpResponse(500, _TEXT, b"The page cannot be made; the broker's log says why.\n"), method == b"GET"


def _encoded(answer: HttpResponse, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")


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
        *((item, snapshot.topics) for item in names.items()),
        *((item, tuple(topic for topic in snapshot.topics if topic.is_compacted)) for item in compacted.items()),
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


class _Sources:
    """What prometheus-client collects from."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """The metrics of every source."""
        for source in self._sources:
            yield from source()

    def describe(self) -> list[Metric]:
        """Nothing: it would be collected at registration otherwise."""
        return []


def pages(
    health: Callable[[], HealthSnapshot], clock: Callable[[], int], *others: Source, aliases: Source | None = None
) -> Mapping[str, Page]:
    """/metrics, /metrics/ottla and /health. `health` gives the newest snapshot; `others` are further sources.

    `aliases` repeat metrics under the names of other tools: /metrics/ottla leaves them out.
    """
    own = [lambda: health_metrics(health(), clock()), *others]
    exposed, exposed_own = exposition(own if aliases is None else [*own, aliases]), exposition(own)

    def health_page() -> HttpResponse:
        snapshot = health().as_of(clock())
        return HttpResponse(
            200 if snapshot.is_healthy else 503, "application/json", json.dumps(snapshot.to_json(), indent=2).encode() + b"\n"
        )

    return {
        "/metrics": lambda: HttpResponse(200, CONTENT_TYPE_LATEST, exposed()),
        "/metrics/ottla": lambda: HttpResponse(200, CONTENT_TYPE_LATEST, exposed_own()),
        "/health": health_page,
    }


def exposition(sources: Sequence[Source]) -> Callable[[], bytes]:
    """A function that gives all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Sources(sources))
    return lambda: generate_latest(registry)
