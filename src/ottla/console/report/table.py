"""The part of a report that needs no script: what the group's rebalances were, as HTML. Every text from outside is escaped here."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

COLUMNS: Final = (
    *("", "began (UTC)", "generation", "cause", "member", "verdict", "confidence"),
    *("members", "moved", "took", "stopped", "what happened"),
)
_PARTITION_SECONDS: Final = " p\u00b7s"
_PLANNED: Final = {True: "planned", False: "not planned", None: "not known"}


def headline_html(document: Mapping[str, Any]) -> str:
    """The head of a group: its name, its state, and the sentence that matters."""
    return (
        f'<header><h2>{escape(document["group"])}</h2> <p class="state">{escape(document["state"])}</p> '
        f'<p class="facts">{escape(document["facts"])}</p></header>\n<p class="headline">{escape(document["headline"])}</p>\n'
        f"{_findings(document['findings'])}"
    )


def _findings(findings: Sequence[str]) -> str:
    return "" if not findings else f'<ul class="findings">{"".join(f"<li>{escape(each)}</li>" for each in findings)}</ul>\n'


def advice_html(document: Mapping[str, Any]) -> str:
    """The settings that would have avoided rebalances, the bursts with their cost."""
    parts = []
    if document["bursts"]:
        items = "".join(f"<li>{_time(each['from_ms'])} {escape(each['sentence'])}</li>" for each in document["bursts"])
        parts.append(f'<div class="panel bursts"><h3>When</h3><ul>{items}</ul></div>')
    if document["advice"]:
        items = "".join(f"<li>{escape(text)} <em>{_would(count, seconds)}</em></li>" for text, count, seconds in document["advice"])
        parts.append(f'<div class="panel advice"><h3>What would have helped</h3><ul>{items}</ul></div>')
    return f'<div class="below">{"".join(parts)}</div>\n' if parts else ""


def table_html(document: Mapping[str, Any], *, first: int | None = None) -> str:
    """The table of all rebalances, a row each, those that were avoided too.

    With more rows than `first`, the others stand in a noscript element behind the table: a browser that runs the page's script does not
    have to lay them out, one that does not shows them.
    """
    columns = document["rebalances"]
    count = len(columns["cause"])
    shown = count if first is None else min(first, count)
    heads = "".join(f'<th scope="col">{name or "<span class=hidden>sign</span>"}</th>' for name in COLUMNS)
    rows = [_row(index, {name: values[index] for name, values in columns.items()}) for index in range(count)]
    table = f'<table class="rebalances"><thead><tr>{heads}</tr></thead>\n<tbody>{"".join(rows[:shown])}</tbody></table>'
    if shown == count:
        return f"{table}\n"
    others = f'<table class="rebalances"><tbody>{"".join(rows[shown:])}</tbody></table>'
    return f'{table}<noscript data-count="{count}">{others}</noscript>\n'


def _row(index: int, row: Mapping[str, Any]) -> str:
    verdict = verdict_of(row)
    took = None if row["join_ms"] is None and row["sync_ms"] is None else (row["join_ms"] or 0) + (row["sync_ms"] or 0)
    planned = "avoided" if row["is_avoided"] else _PLANNED[row["planned"]]
    stopped = None if row["stopped"] is None else round(row["stopped_seconds"], 1)
    cells = (
        f'<td class="{verdict}">{escape(row["glyph"])}</td>'
        f'<td data-value="{row["started_ms"]}">{_time(row["started_ms"])}</td>'
        f"{_number(row['generation'])}<td>{_cause(row)}</td><td>{escape(row['member_name'] or '')}</td>"
        f'<td class="{verdict}">{planned}</td><td>{escape(row["confidence"])}</td>'
        f"<td>{_known(row['members_before'])} \u2192 {_known(row['members_after'])}</td>{_number(row['moved'])}{_number(took, ' ms')}"
        f"{_number(stopped, _PARTITION_SECONDS)}<td>{escape(row['sentence'])}</td>"
    )
    return f'<tr data-index="{index}">{cells}</tr>\n'


def verdict_of(row: Mapping[str, Any]) -> str:
    """The class of a verdict: avoided, planned, unplanned or unknown."""
    if row["is_avoided"]:
        return "avoided"
    return "unknown" if row["planned"] is None else "planned" if row["planned"] else "unplanned"


def _cause(row: Mapping[str, Any]) -> str:
    others = [each for each in row["candidates"] if each != row["cause"]]
    more = f' <small title="{escape(", ".join(others))}">or {len(others)} more</small>' if others else ""
    return f"{escape(row['cause'])}{more}"


def _number(value: float | None, unit: str = "") -> str:
    return '<td data-value=""></td>' if value is None else f'<td data-value="{value}">{value:,}{unit}</td>'


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _would(count: int, seconds: float) -> str:
    cost = f", {seconds:,.0f} partition-seconds" if seconds >= 1 else ""
    return f"({count} rebalance{'' if count == 1 else 's'}{cost})"


def _time(at_ms: int) -> str:
    """A time for people and programs; times beyond the calendar are numbers."""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)
    return f'<time datetime="{at.isoformat(timespec="milliseconds")}">{at:%Y-%m-%d %H:%M:%S}</time>'
