"""The report, its page and its script."""

import base64
import gzip
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from ottla.console.report.report import Report, advice_html, asset, headline_html, joined_script, report_page, table_html
from ottla.history.incidents import find_incidents
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.story.arrays import unpack
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import Story, StoryExtras, story
from ottla.history.verdicts.verdict import Confidence, SettingAdvice, Verdict

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"

REPORT = Report((story("orders", [], [StoryRebalance(started_ms=1, planned=False, sentence="w1 came back.")]),), note="made in a test")


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


def test_a_join_that_was_refused_is_not_called_avoided() -> None:
    refused = StoryRebalance(started_ms=0, is_avoided=True, is_refused=True, planned=False)
    text = Elements(table_html(story("g", [], [refused]).document)).text
    assert "×" in text
    assert "refused" in text
    assert "avoided" not in text
    assert "avoided" not in headline_html(story("g", [], [refused]).document)


def test_the_page_begins_with_the_incidents_of_all_groups_each_once() -> None:
    cause = {"cause": Cause.COORDINATOR_MOVE, "candidates": (Cause.COORDINATOR_MOVE,), "confidence": Confidence.HIGH}
    outage = [
        Verdict(group=group, generation=1, started_ms=10_000, ended_ms=12_000, kind="rebalance", planned=False, avoidable=False, **cause)
        for group in ("orders", "<billing>")
    ]
    incidents = find_incidents(outage)
    report = Report(tuple(story(each.group, [], [], StoryExtras(incidents=incidents)) for each in outage))
    page = report.html()
    assert page.index('<section class="incidents">') < page.index('<section class="group"')
    text = Elements(page[: page.index('<section class="group"')]).text
    assert text.count("broker outage") == 1
    assert "<billing>, orders" in text or "orders, <billing>" in text
    assert len(report.to_dict()["incidents"]) == 1
    assert str(report).startswith("Broker outage: <billing>, orders, 1970-01-01 00:00:10 UTC for 2.0 s; 2 rebalances; not planned")
    headline = report.stories[0].document["headline"]
    assert headline.startswith("1 incident, 1 not planned: broker outage 00:00 <billing>, orders. The evidence")


def test_the_script_is_ascii_without_imports_and_cannot_end_its_element() -> None:
    script = joined_script()
    assert script.isascii()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "</script" not in script
    assert "<!--" not in script


def test_every_module_stands_after_those_that_it_imports() -> None:
    script = joined_script()
    begins = {name: script.index(f"const module_{name} =") for name in re.findall(r"^const module_(\w+) = \(", script, re.MULTILINE)}
    assert list(begins)[-1] == "main"
    for name in begins:
        for imported in re.findall(r'from "\./(\w+)\.js"', asset(f"{name}.js")):
            assert begins[imported] < begins[name]


def test_everything_that_is_imported_is_exported() -> None:
    script = joined_script()
    for names, module in re.findall(r"const \{([^}]*)\} = module_(\w+);", script):
        exported = re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", asset(f"{module}.js"), re.MULTILINE)
        assert {name.strip() for name in names.split(",")} <= set(exported)


def test_the_script_asks_for_nothing_and_writes_no_markup() -> None:
    script = joined_script()
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
    ):
        assert word not in script


def test_it_is_valid_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node; the tests in tests/console run the script in a browser")
    subprocess.run([node, "--check", "-"], input=joined_script(), text=True, check=True)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"const module_(\w+) = \(", joined_script()))))
def test_modules_are_small_and_say_what_they_do(name: str) -> None:
    text = asset(f"{name}.js")
    assert text.startswith("/**\n * ")
    assert text.count("\n") <= 300


def a_story(group: str = "orders") -> Story:
    return story(group, [], [StoryRebalance(started_ms=1_000, sentence="w1 came back.")])


def test_the_policy_names_the_script_and_the_style_by_their_hashes_and_nothing_else() -> None:
    page = report_page([a_story()])
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert not re.search(r'\s(style|on\w+|src|href)="', page)


def test_the_data_is_the_story() -> None:
    page = report_page([a_story()])
    [packed] = re.findall(r'<script type="application/vnd.ottla.story" id="story-0">([^<]*)</script>', page)
    assert unpack(gzip.decompress(base64.b64decode(packed)))["group"] == "orders"
    assert report_page([a_story()]) == page


def test_one_group_has_no_chooser_and_several_have_one() -> None:
    assert "<select" not in report_page([a_story()])
    page = report_page([a_story(), a_story("</option><b>")])
    options = page[page.index("<select") : page.index("</select>")]
    assert '<option value="orders" selected>orders</option>' in options
    assert '<option value="&lt;/option&gt;&lt;b&gt;">&lt;/option&gt;&lt;b&gt;</option>' in options
    assert page.count("<section") == 2


def test_the_group_that_stopped_most_is_opened_first() -> None:
    bad = story("z", [], [StoryRebalance(started_ms=1, planned=False, stopped=5, stopped_ms=900)])
    assert '<option value="z" selected>z \u25bc 1</option>' in report_page([a_story(), bad])


def test_no_stories_are_a_sentence() -> None:
    page = report_page([], note="from <nothing>")
    assert "There is no rebalance in the evidence." in page
    assert "<footer>from &lt;nothing&gt;</footer>" in page


def test_a_notebook_gets_a_sandboxed_frame_a_table_and_text() -> None:
    bundle = REPORT._repr_mimebundle_()
    [frame] = re.findall(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)"', bundle["text/html"])
    assert html.unescape(frame) == REPORT.html()
    assert '<table class="rebalances">' in bundle["text/html"].partition("</iframe>")[2]
    assert "▼ 1970-01-01 00:00:00 UTC: w1 came back." in bundle["text/plain"]


def test_elsewhere_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    REPORT.show()
    assert "orders: Unknown. 1 of 1 rebalance was not planned" in capsys.readouterr().out


def test_it_is_json_too() -> None:
    values = json.loads(json.dumps(REPORT.to_dict()))
    assert values["stories"][0]["rebalances"]["sentence"] == ["w1 came back."]


def test_without_events_it_says_so() -> None:
    assert str(Report.of_events([])) == "There is no rebalance in the evidence."
