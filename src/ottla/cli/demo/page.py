"""The demo's report as a page: the day's rebalances, members and lag, by the same code as `ottla report`."""

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.cli.demo.consumers import GROUP
from ottla.cli.demo.lag_chart import LagRow, spans
from ottla.cli.demo.scene import TOPIC
from ottla.console.report.report import Report
from ottla.core.diagnosis.story.lag import LagHistory
from ottla.core.model import GroupEvent, TopicPartition

STEP_MS: Final = 250


def report_page(events: Iterable[GroupEvent], lag: Sequence[LagRow]) -> str:
    """The page of the demo's group."""
    of_group = [event for event in events if event.group == GROUP]
    history = {} if not lag else {GROUP: lag_history(lag)}
    return Report.of_events(of_group, lag=history, note="ottla demo: the flights of 2013 through a consumer group").html()


def lag_history(lag: Sequence[LagRow]) -> LagHistory:
    """The greatest lag of each partition in each quarter of a second."""
    from_ms, to_ms = min(row.at_ms for row in lag), max(row.at_ms for row in lag)
    count = (to_ms - from_ms) // STEP_MS + 1
    found = spans(lag, from_ms, from_ms + count * STEP_MS, count)
    rows = {TopicPartition(TOPIC, partition): [-1 if value is None else value for value in values] for partition, values in found.items()}
    return LagHistory(from_ms, STEP_MS, rows)
