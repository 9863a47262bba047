import base64
import gzip
import hashlib
import re

from ottla.console.report.page import report_page
from ottla.history.story.arrays import unpack
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import Story, story


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
