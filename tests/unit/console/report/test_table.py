from html.parser import HTMLParser

from ottla.console.report.table import advice_html, headline_html, table_html
from ottla.history.processes import Identity
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import story
from ottla.history.verdicts.verdict import SettingAdvice

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


class Elements(HTMLParser):
    """The names of all elements, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_strings_of_strangers_are_text() -> None:
    rebalance = StoryRebalance(
        started_ms=0,
        planned=False,
        member=Identity(HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        sentence=HOSTILE,
        candidates=("A", HOSTILE),
        advice=(SettingAdvice(HOSTILE, "1", HOSTILE),),
    )
    document = story(HOSTILE, [], [rebalance]).document
    for part in (headline_html(document), advice_html(document), table_html(document)):
        elements = Elements(part)
        assert not {"img", "script"} & set(elements.names)
        assert HOSTILE in elements.text


def test_a_row_says_verdict_cost_and_time_and_what_is_not_known() -> None:
    known = StoryRebalance(
        started_ms=1_795_125_600_000,
        join_ms=400,
        sync_ms=5,
        generation=3,
        planned=True,
        members_before=2,
        members_after=3,
        stopped=12,
        stopped_ms=405,
    )
    text = Elements(table_html(story("g", [], [known, StoryRebalance(started_ms=0)]).document)).text
    assert "▲2026-11-19 22:00:003UNKNOWNplannedlow2 → 3405 ms4.9 p·s" in text
    assert "?1970-01-01 00:00:00UNKNOWNnot knownlow? → ?" in text


def test_a_time_beyond_the_calendar_is_a_number() -> None:
    assert str(10**18) in table_html(story("g", [], [StoryRebalance(started_ms=10**18)]).document)


def test_the_rest_of_a_long_table_is_not_laid_out_where_script_runs() -> None:
    document = story("g", [], [StoryRebalance(started_ms=0, sentence=f"</noscript>{at}") for at in range(5)]).document
    shown, begin, rest = table_html(document, first=2).partition('<noscript data-count="5">')
    assert (begin != "", shown.count("<tr data-index"), rest.count("<tr data-index")) == (True, 2, 3)
    assert rest.count("</noscript>") == 1
    assert "<noscript" not in table_html(document, first=5)


def test_avoided_rebalances_are_rows_too() -> None:
    text = Elements(table_html(story("g", [], [StoryRebalance(started_ms=0, is_avoided=True)]).document)).text
    assert "◇" in text
    assert "avoided" in text
