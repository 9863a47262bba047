"""A prediction as text, at most 80 columns wide."""

import datetime
import textwrap
from collections.abc import Iterator
from typing import Final

from ottla.core.text import printable
from ottla.core.whatif.behaviour import GroupBehaviour
from ottla.core.whatif.comparison import Comparison
from ottla.core.whatif.outcome import Outcome, ReplayedRebalance
from ottla.core.whatif.prediction import Prediction
from ottla.core.whatif.search import SearchResult

WIDTH: Final = 80
NAME_WIDTH: Final = 26
ROWS_MAX: Final = 40
"""Rebalances that are listed; more are counted."""
UNKNOWN: Final = "-"


def text(prediction: Prediction) -> Iterator[str]:
    """The lines of a report."""
    behaviour = prediction.behaviour
    yield from _wrap(_head(behaviour))
    agreed = prediction.agreement
    line = f"Replayed with the recorded settings: {agreed.reproduced} of {agreed.recorded} recorded rebalances"
    yield from _wrap(f"{line}, {len(agreed.extra_ms)} others." if agreed.extra_ms else f"{line}.")
    if not agreed.is_complete:
        yield from _wrap("The replay differs from the recording, so take the figures as a tendency.")
    yield ""
    if prediction.comparison is not None:
        yield from _comparison(behaviour, prediction.comparison)
    if prediction.search is not None:
        yield from _search(behaviour, prediction.search)
    for note in behaviour.notes:
        yield from _wrap(f"note: {note}.")


def _head(behaviour: GroupBehaviour) -> str:
    partitions = sum(behaviour.partition_counts[-1][1].values()) if behaviour.partition_counts else 0
    return (
        f"Group {printable(behaviour.group)}, {_time(behaviour.started_ms, date=True)} to {_time(behaviour.ended_ms, date=True)} UTC "
        f"({behaviour.hours:.2f} h): {len(behaviour.processes)} processes, {partitions or 'unknown'} partitions, {behaviour.protocol}."
    )


def _comparison(behaviour: GroupBehaviour, found: Comparison) -> Iterator[str]:
    yield from _wrap("What if " + ", ".join(f"{name}={value}" for name, value in found.settings.texts().items()))
    yield ""
    yield f"{'':46}{'before':>12}{'after':>12}"
    yield from (f"{title:46}{before:>12}{after:>12}" for title, before, after in _rows(behaviour, found.before, found.after))
    yield ""
    yield from _rebalances(found)
    for warning in found.warnings:
        yield from _wrap(f"warning: {warning}")


def _rows(behaviour: GroupBehaviour, before: Outcome, after: Outcome) -> Iterator[tuple[str, str, str]]:
    both = before, after
    yield ("rebalances", *(str(len(each.rebalances)) for each in both))  # type: ignore[misc]
    yield ("  planned", *(str(each.planned) for each in both))  # type: ignore[misc]
    yield ("  unplanned", *(str(each.unplanned) for each in both))  # type: ignore[misc]
    yield ("  unplanned per hour", *(f"{each.unplanned / behaviour.hours:.1f}" for each in both))  # type: ignore[misc]
    yield ("avoided by static membership", *(str(len(each.avoided)) for each in both))  # type: ignore[misc]
    is_known = bool(behaviour.partition_counts)
    yield ("partitions moved", *(str(each.moved) if is_known else UNKNOWN for each in both))  # type: ignore[misc]
    yield ("partition-seconds stopped by rebalances", *(_seconds(each.stopped_ms, is_known) for each in both))  # type: ignore[misc]
    yield ("partition-seconds with silent or dead members", *(_seconds(each.waiting_ms, is_known) for each in both))  # type: ignore[misc]


def _rebalances(found: Comparison) -> Iterator[str]:
    gone, new = set(map(id, found.gone)), set(map(id, found.new))
    rows = [(each, "gone" if id(each) in gone else "stays") for each in found.before.rebalances if not each.planned or id(each) in gone]
    rows += [(each, "new") for each in found.after.rebalances if id(each) in new]
    rows.sort(key=lambda row: row[0].at_ms)
    if not rows:
        return
    yield f"{'time':14}{'cause':24}{'process':{NAME_WIDTH}}after"
    for each, fate in rows[:ROWS_MAX]:
        yield f"{_time(each.at_ms):14}{each.cause.value:24}{_name(each):{NAME_WIDTH}}{fate}"
    if len(rows) > ROWS_MAX:
        yield f"... and {len(rows) - ROWS_MAX} more (--json lists all)"
    yield ""


def _search(behaviour: GroupBehaviour, found: SearchResult) -> Iterator[str]:
    yield f"{'unplanned':>10}{'per hour':>10}{'partition-seconds':>19}  settings"
    for option in found.front:
        stopped = _seconds(option.outcome.stopped_ms + option.outcome.waiting_ms, bool(behaviour.partition_counts))
        settings = " ".join(f"{name}={value}" for name, value in option.settings.texts().items()) or "as recorded"
        first, *more = textwrap.wrap(settings, WIDTH - 41, break_on_hyphens=False) or [""]
        yield f"{option.outcome.unplanned:>10}{option.per_hour:>10.1f}{stopped:>19}  {first}"
        yield from (" " * 41 + each for each in more)
    yield ""
    if found.best is None:
        yield from _wrap(f"None of the {found.tried} combinations that were tried meets the goal; the last one comes closest.")
    elif not found.best.settings.texts():
        yield from _wrap("The recorded settings meet the goal.")
    else:
        yield from _wrap("The last one meets the goal. Look at its risks with --set.")


def _wrap(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH, break_on_hyphens=False, subsequent_indent="  ")


def _name(each: ReplayedRebalance) -> str:
    name = printable(each.process) or UNKNOWN
    return name if len(name) < NAME_WIDTH else name[: NAME_WIDTH - 4] + "..."


def _time(at_ms: int, *, date: bool = False) -> str:
    try:
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=at_ms)
    except OverflowError:
        return str(at_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}" if date else f"{moment:%H:%M:%S}.{at_ms % 1000:03}"


def _seconds(duration_ms: int, is_known: bool) -> str:
    return f"{duration_ms / 1000:.1f}" if is_known else UNKNOWN
