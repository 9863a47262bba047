"""The pages that a broker serves over HTTP: /metrics, in Prometheus' text format, from several sources, and /health."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from ottla.broker.monitoring.health import HealthSnapshot
from ottla.broker.monitoring.health_metrics import health_metrics
from ottla.broker.monitoring.metrics_server import HttpResponse, Page

Source = Callable[[], Iterable[Metric]]
"""Makes metrics from a frozen snapshot, in the thread that serves them."""


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
