"""Writes the page of one or several stories: one file with script, style, data and tables in it, which asks the network for nothing.

A policy in the page lets nothing run but its own script, by hash, and nothing be loaded at all.
"""

import base64
import gzip
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Final

from ottla.console.report.script import asset, joined_script
from ottla.console.report.table import advice_html, headline_html, table_html
from ottla.history.story.story import Story

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
    ("swatch stopped", "", "stands still: a rebalance runs"),
    ("swatch silent", "", "silent, not yet removed"),
    ("swatch heat", "", "owns few to many partitions"),
    ("swatch absent", "", "not a member"),
)


def report_page(stories: Sequence[Story], *, title: str | None = None, note: str = "") -> str:
    """The page as text; encode it as UTF-8. `note`: a line at the end, e.g. what it was made from and when."""
    script, style = joined_script(), asset("report.css")
    name = title or (f"Consumer group {stories[0].group}" if len(stories) == 1 else "Consumer groups")
    body = "".join(_section(each, number, is_first=number == 0) for number, each in enumerate(stories))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(name)}</title>\n'
        f"<style>{style}</style></head>\n<body>\n{_chooser(stories)}{_NOTHING if not stories else ''}{body}"
        f"{_HELP}<footer>{escape(note)}</footer>\n"
        f"{''.join(_data(each, number) for number, each in enumerate(stories))}<script>{script}</script>\n</body></html>\n"
    )


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
    lag = "" if document["lag"] else '<p class="quiet">No lag here: its sources have no commits over time.</p>'
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


_SEARCH: Final = '<input class="search" type="search" placeholder="Search the table (/)" aria-label="Search the table" hidden>'
_HELP: Final = (
    '<dialog class="help"><h3>Keys</h3><dl></dl><p>The wheel zooms with Ctrl, or once the picture has the focus. A drag moves the view; '
    'shift and a drag sum up a range.</p><button type="button">Close</button></dialog>\n'
)
_NOTHING: Final = "<p>There is no rebalance in the evidence.</p>\n"
