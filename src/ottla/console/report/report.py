"""The report as an object of Python: its page as text or as a file, and itself as the output of a notebook's cell.

A page has one or several stories: one file with script, style, data and tables in it, which asks the network for nothing. A policy in the
page lets nothing run but its own script, by hash, and nothing be loaded at all. The tables need no script: what the group's rebalances
were, as HTML. Every text from outside is escaped here.

The page's modules are joined into one script without imports: a sandboxed frame of a notebook runs only that, under a policy of hashes.
Each module becomes a function that returns its exports. The script is ASCII: in a page of another charset the hash of anything else fails.
"""

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final, Self

from ottla.groups.events import GroupEvent
from ottla.history.sources.evidence import Evidence
from ottla.history.sources.group_events import BROKER_CLOCK, evidence_of_events
from ottla.history.story.arrays import LagHistory
from ottla.history.story.incident_texts import utc_text
from ottla.history.story.stories import EVERYTHING, StoryOptions, stories
from ottla.history.story.story import Story

COLUMNS: Final = (
    *("", "began (UTC)", "generation", "cause", "member", "verdict", "confidence"),
    *("members", "moved", "took", "stopped", "what happened"),
)
_PARTITION_SECONDS: Final = " p\u00b7s"
_PLANNED: Final = {True: "planned", False: "not planned", None: "not known"}

ENTRY: Final = "main"
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|class|const)) (\w+)", re.MULTILINE)

_GZIP_LEVEL: Final = 6
_ROWS_FIRST: Final = 100
_BUTTONS: Final = (
    ("all", "Whole history (0)"),
    ("unplanned", "Next unplanned (u)"),
    ("fold", "Fold idle time (f)"),
    ("theme", "Dark or light"),
    ("help", "Keys (?)"),
)
_LEGEND: Final = (
    ("sign unplanned", "\u25bc", "not planned"),
    ("sign planned", "\u25b2", "planned"),
    ("sign unknown", "?", "planned or not: not known"),
    ("sign avoided", "\u25c7", "avoided by static membership"),
    ("sign avoided", "\u00d7", "refused: the member could not join"),
    ("swatch stopped", "", "stands still: a rebalance runs"),
    ("swatch silent", "", "silent, not yet removed"),
    ("swatch heat", "", "owns few to many partitions"),
    ("swatch absent", "", "not a member"),
)

FRAME_HEIGHT: Final = 860
_SANDBOX: Final = "allow-scripts"


def headline_html(document: Mapping[str, Any]) -> str:
    """The head of a group: its name, its state, and the sentence that matters."""
    return (
        f'<header><h2>{escape(document["group"])}</h2> <p class="state">{escape(document["state"])}</p> '
        f'<p class="facts">{escape(document["facts"])}</p></header>\n<p class="headline">{escape(document["headline"])}</p>\n'
        f"{_findings(document['findings'])}"
    )


def _findings(findings: Sequence[str]) -> str:
    return "" if not findings else f'<ul class="findings">{"".join(f"<li>{escape(each)}</li>" for each in findings)}</ul>\n'


INCIDENT_COLUMNS: Final = (
    *("from (UTC)", "to", "incident", "groups", "who", "rebalances", "partition-seconds"),
    *("planned", "confidence", "setting"),
)


def incidents_html(incidents: Sequence[Mapping[str, Any]]) -> str:
    """What happened to all groups: a sentence with the count, and a row for each incident; empty where there is none."""
    if not incidents:
        return ""
    unplanned = sum(incident["planned"] is False for incident in incidents)
    heads = "".join(f'<th scope="col">{name}</th>' for name in INCIDENT_COLUMNS)
    rows = "".join(map(_incident_row, incidents))
    return (
        f'<section class="incidents"><h2>Incidents</h2><p class="headline">{len(incidents)}, {unplanned} of them not planned.</p>\n'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div></section>\n'
    )


def _incident_row(incident: Mapping[str, Any]) -> str:
    planned, seconds, advice = incident["planned"], incident["stopped_partition_seconds"], incident["advice"]
    style = "unknown" if planned is None else "planned" if planned else "unplanned"
    setting = "none" if advice is None else " = ".join(filter(None, (advice["setting"], advice["value"])))
    cells = (
        f"<td>{_time(incident['started_ms'])}</td><td>{_time(incident['ended_ms'])}</td><td>{escape(incident['incident'])}</td>"
        f"<td>{escape(', '.join(incident['groups']))}</td><td>{escape(', '.join(incident['culprits']) or '-')}</td>"
        f"{_number(incident['rebalances'])}{_number(seconds)}"
        f'<td class="{style}">{_PLANNED[planned]}</td><td>{incident["confidence"]}</td><td>{escape(setting)}</td>'
    )
    return f'<tr title="{escape(incident["sentence"])}">{cells}</tr>\n'


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
    planned = "refused" if row["is_refused"] else "avoided" if row["is_avoided"] else _PLANNED[row["planned"]]
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


def asset(name: str) -> str:
    """The text of a file of the page."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


@cache
def joined_script() -> str:
    """All modules that the entry needs, each after those that it imports."""
    modules: dict[str, str] = {}
    _add(ENTRY, modules)
    parts = [f"const {_name(module)} = (() => {{\n{body}}})();\n" for module, body in modules.items()]
    return '"use strict";\n(() => {\n' + "".join(parts) + "})();\n"


def _add(module: str, modules: dict[str, str]) -> None:
    if module in modules:
        return
    text = asset(f"{module}.js")
    for _, imported in _IMPORT.findall(text):
        _add(imported, modules)
    exported = [name for _, name in _EXPORT.findall(text)]
    body = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_name(match[2])};\n", text)
    body = _EXPORT.sub(r"\1 \2", body)
    modules[module] = f"{body}return {{ {', '.join(exported)} }};\n" if exported else body


def _name(module: str) -> str:
    return f"module_{module}"


def report_page(stories: Sequence[Story], *, title: str | None = None, note: str = "") -> str:
    """The page as text; encode it as UTF-8. `note`: a line at the end, e.g. what it was made from and when."""
    script, style = joined_script(), asset("report.css")
    name = title or (f"Consumer group {stories[0].group}" if len(stories) == 1 else "Consumer groups")
    body = "".join(_section(each, number, is_first=number == 0) for number, each in enumerate(stories))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(name)}</title>\n'
        f"<style>{style}</style></head>\n<body>\n{incidents_html(incidents_of(stories))}"
        f"{_chooser(stories)}{_NOTHING if not stories else ''}{body}"
        f"{_HELP}<footer>{escape(note)}</footer>\n"
        f"{''.join(_data(each, number) for number, each in enumerate(stories))}<script>{script}</script>\n</body></html>\n"
    )


def incidents_of(stories: Iterable[Story]) -> list[dict[str, Any]]:
    """The incidents of all groups, each once, in the order of their times."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for story in stories:
        for incident in story.document["incidents"]:
            found.setdefault((incident["started_ms"], incident["incident"], *incident["groups"], *incident["culprits"]), incident)
    return sorted(found.values(), key=lambda incident: incident["started_ms"])


def _policy(script: str, style: str) -> str:
    """Nothing but this script and this style, and no requests."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _chooser(stories: Sequence[Story]) -> str:
    """The head of the page: which group, and the buttons. What needs the script is hidden until it runs."""
    buttons = "".join(f'<button type="button" data-action="{action}" hidden>{text}</button>' for action, text in _BUTTONS)
    worst = max(stories, key=_blame, default=None)
    options = "".join(_option(each, is_selected=each is worst) for each in stories)
    choice = f'<label>Group <select id="group">{options}</select></label>' if len(stories) > 1 else ""
    return f'<nav aria-label="View">{choice}<span class="buttons">{buttons}</span></nav>\n'


def _blame(story: Story) -> tuple[float, int]:
    """How bad a group is: what its members stopped without a plan, and how often."""
    ledger = story.document["ledger"]
    return sum(each[3] for each in ledger), sum(each[2] for each in ledger)


def _option(story: Story, *, is_selected: bool) -> str:
    unplanned = _blame(story)[1]
    mark = f" \u25bc {unplanned}" if unplanned else ""
    return f'<option value="{escape(story.group)}"{" selected" if is_selected else ""}>{escape(story.group)}{mark}</option>'


def _section(story: Story, number: int, *, is_first: bool) -> str:
    document = story.document
    legend = "".join(f'<li><span class="{style}">{sign}</span>{meaning}</li>' for style, sign, meaning in _LEGEND)
    lag = "" if document["lag"] else _NO_LAG
    return (
        f'<section class="group" data-group="{escape(story.group)}" data-story="story-{number}">\n{headline_html(document)}'
        f'<div class="columns"><div class="timeline" role="img" tabindex="0" aria-label="{escape(_describe(story))}">'
        f"<noscript>The picture needs JavaScript; the table below does not.</noscript></div>\n"
        f'<aside><div class="beside"></div><div class="panel legend"><h3>Legend</h3><ul>{legend}</ul></div>{lag}</aside></div>\n'
        f'<p class="live" aria-live="polite"></p>\n{advice_html(document)}'
        f"<h3>All rebalances</h3>{_SEARCH}\n"
        f'<div class="table">{table_html(document, first=_ROWS_FIRST)}</div></section>\n'
    )


def _describe(story: Story) -> str:
    """The picture as a sentence, for those who do not see it."""
    document = story.document
    return f"Timeline of the group {story.group}: {document['facts']}. {document['headline']} The table below lists every rebalance."


def _data(story: Story, number: int) -> str:
    packed = base64.b64encode(gzip.compress(story.to_bytes(), _GZIP_LEVEL, mtime=0)).decode()
    return f'<script type="application/vnd.ottla.story" id="story-{number}">{packed}</script>\n'


_NO_LAG: Final = (
    '<p class="quiet">No lag here: no source has commits together with the ends of logs over time. An archive of ottla watch has both.</p>'
)
_SEARCH: Final = '<input class="search" type="search" placeholder="Search the table (/)" aria-label="Search the table" hidden>'
_HELP: Final = (
    '<dialog class="help"><h3>Keys</h3><dl></dl><p>The wheel zooms with Ctrl, or once the picture has the focus. A drag moves the view; '
    'shift and a drag sum up a range.</p><button type="button">Close</button></dialog>\n'
)
_NOTHING: Final = "<p>There is no rebalance in the evidence.</p>\n"


@dataclass(frozen=True, slots=True)
class Report:
    """The stories of some groups; `note` stands at the page's end."""

    stories: tuple[Story, ...]
    note: str = ""

    @classmethod
    def of_evidence(
        cls,
        evidence: Iterable[Evidence],
        *,
        options: StoryOptions = EVERYTHING,
        lag: Mapping[str, LagHistory] | None = None,
        note: str = "",
    ) -> Self:
        """The report of the groups in the evidence, from any source."""
        return cls(tuple(stories(evidence, options=options, lag=lag)), note)

    @classmethod
    def of_events(cls, events: Iterable[GroupEvent], *, lag: Mapping[str, LagHistory] | None = None, note: str = "") -> Self:
        """The report of all groups in an Ottla broker's events, e.g. those that `Broker(on_group_event=...)` has passed on."""
        return cls.of_evidence(evidence_of_events(events, clock=BROKER_CLOCK), lag=lag, note=note)

    def html(self) -> str:
        """The page: write it to a file as UTF-8."""
        return report_page(self.stories, note=self.note)

    def to_dict(self) -> dict[str, Any]:
        """The stories as JSON-ready values."""
        return {"incidents": incidents_of(self.stories), "stories": [story.to_dict() for story in self.stories]}

    def show(self) -> None:
        """Show the report in a notebook; elsewhere, print what it says."""
        try:
            from IPython.display import display  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            print(self)  # noqa: T201
        else:
            display(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The page in a frame that may run its script and nothing else; below it the tables, for places that show no frame; and text."""
        frame = (
            f'<iframe sandbox="{_SANDBOX}" srcdoc="{escape(self.html())}" title="Report" width="100%" height="{FRAME_HEIGHT}" '
            'frameborder="0"></iframe>'
        )
        tables = incidents_html(incidents_of(self.stories))
        tables += "".join(f"{headline_html(each.document)}{advice_html(each.document)}{table_html(each.document)}" for each in self.stories)
        return {"text/html": f"{frame}\n<details><summary>As tables</summary>{tables}</details>", "text/plain": str(self)}

    def __str__(self) -> str:
        incidents = [incident["sentence"] for incident in incidents_of(self.stories)]
        texts = [*incidents, *(_text(story.document) for story in self.stories)]
        return "\n".join(texts) or "There is no rebalance in the evidence."


def _text(document: Mapping[str, Any]) -> str:
    rebalances = document["rebalances"]
    lines = [f"{document['group']}: {document['state']}. {document['headline']}"]
    columns = (rebalances["glyph"], map(utc_text, rebalances["started_ms"]), rebalances["sentence"])
    lines += [f"  {glyph} {time}: {sentence}" for glyph, time, sentence in zip(*columns, strict=True)]
    return "\n".join(lines)
