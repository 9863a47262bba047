"""The report in a browser: what stands where, keys, no network, strangers' strings, paper, no script, a sandboxed frame."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.console.report.report import Report
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import story

Open = Callable[..., Any]
BEGIN_MS = 1_795_125_600_000
LOST, BACK = 2, 3
"""The rebalances in which w2 was removed, and came back."""
HOSTILE = "</script><img src=x onerror=\"document.title='got you'\">"


def at_second(second: float) -> int:
    return BEGIN_MS + round(second * 1_000)


def test_the_page_names_causes_owners_and_lag_where_they_are_drawn(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    lost = opened.at(rebalance=LOST)
    assert (lost["cause"], lost["member"], lost["verdict"]) == ("EXPIRE_HEARTBEAT", "w2", "unplanned")
    assert lost["sentence"] == "w2 sent no heartbeat for 6.1 s (its session is 6.0 s) and was removed."
    states = {second: opened.at(member="w2", ms=at_second(second))["state"] for second in (5, 20, 26, 33, 45)}
    assert states == {5: "absent", 20: "owns", 26: "silent", 33: "absent", 45: "owns"}
    assert opened.at(member="w1", ms=at_second(33))["owned"] == [f"orders-{partition}" for partition in range(4)]
    assert opened.at(member="w1", ms=at_second(30.2))["state"] == "stopped"
    behind = opened.at(partition="orders-2", ms=at_second(29.5))
    assert (behind["owner"], 400 < behind["lag"] < 600) == ("w2", True)
    assert opened.errors == []


def test_what_is_drawn_has_the_colours_of_what_it_is(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    owned, other = (opened.colour(member="w1", ms=at_second(second)) for second in (20, 5))
    absent = opened.colour(member="w2", ms=at_second(5))
    assert absent == opened.variable("absent")
    assert owned != absent
    assert other != absent


def test_it_asks_the_network_for_nothing(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    opened.page.keyboard.press("u")
    assert len([url for url in opened.requests if not url.startswith("blob:")]) == 1
    assert opened.requests[0].startswith("file:")
    blocked = opened.page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'blocked')")
    assert blocked == "blocked"
    assert len([url for url in opened.requests if url.startswith("http")]) == 0


def test_the_keyboard_reaches_every_rebalance_and_member(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    press = opened.page.keyboard.press
    press("u")
    assert opened.timeline("chosen") == LOST
    assert "EXPIRE_HEARTBEAT" in opened.page.inner_text(".detail h3")
    assert "w2 sent no heartbeat" in opened.page.inner_text(".live")
    press("ArrowRight")
    assert opened.timeline("chosen") == BACK
    press("ArrowLeft")
    press("Enter")
    assert opened.timeline("view.to - $.timeline.view.from", 0) < 60_000
    press("0")
    press("ArrowDown")
    assert opened.timeline("member") is not None
    press("l")
    assert opened.at(partition="orders-2", ms=at_second(29.5)) is None
    press("l")
    press("/")
    opened.page.keyboard.type("LEAVE")
    assert opened.page.locator("table.rebalances tbody tr:visible").count() == 1
    press("Escape")
    press("?")
    assert opened.page.locator("dialog.help").is_visible()
    press("Escape")
    press("Escape")
    assert opened.timeline("chosen") is None


def test_a_click_on_a_bar_a_row_or_a_head_does_what_it_should(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    opened.click(rebalance=LOST)
    assert opened.timeline("chosen") == LOST
    opened.page.click(f'tr[data-index="{BACK}"]')
    assert opened.timeline("chosen") == BACK
    assert opened.page.locator("tr.chosen").get_attribute("data-index") == str(BACK)
    generations = "[...document.querySelectorAll('tr[data-index]')].map((row) => row.cells[2].textContent)"
    opened.page.click("section:not(.incidents) th:nth-child(3) button")
    opened.page.click("section:not(.incidents) th:nth-child(3) button")
    assert opened.page.evaluate(generations) == ["5", "4", "3", "2", "1"]


def test_zooming_keeps_what_is_under_the_pointer(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    place = opened.timeline("place($)", {"rebalance": LOST})
    before = opened.timeline("scale.ms($)", place["x"])
    opened.timeline("zoom(0.5, $)", place["x"])
    opened.settle()
    assert opened.timeline("scale.ms($)", place["x"]) == pytest.approx(before, abs=1)
    assert opened.at(rebalance=LOST)["index"] == LOST


def test_idle_time_folds_and_unfolds(open_page: Open, report: Report) -> None:
    opened = open_page(report.html())
    whole = opened.timeline("full.to - $.timeline.full.from", 0)
    opened.page.keyboard.press("f")
    opened.settle()
    assert opened.timeline("full.to - $.timeline.full.from", 0) < whole / 2
    assert opened.at(rebalance=LOST)["cause"] == "EXPIRE_HEARTBEAT"
    assert opened.timeline("scale.ms($.timeline.scale.x($.value))", at_second(22)) == pytest.approx(at_second(22), abs=1)
    opened.page.keyboard.press("f")
    assert opened.timeline("full.to - $.timeline.full.from", 0) == whole


def test_strings_of_strangers_stay_text(open_page: Open, bad_day: Any) -> None:
    report = Report.of_events(bad_day(group=HOSTILE, names=(HOSTILE, "w2")).events, note=HOSTILE)
    opened = open_page(report.html())
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.inner_text("section:not(.incidents) h2") == HOSTILE
    assert HOSTILE in opened.page.inner_text(".incidents")
    assert opened.page.locator("img").count() == 0
    assert opened.page.title() == f"Consumer group {HOSTILE}"
    assert HOSTILE in opened.page.inner_text(".detail")
    assert opened.at(member=HOSTILE, ms=at_second(20))["name"] == HOSTILE
    assert opened.errors == []


def test_without_script_the_table_says_it_all(open_page: Open, report: Report) -> None:
    opened = open_page(report.html(), is_ready=False, java_script_enabled=False)
    text = opened.page.inner_text("body")
    assert "2 of 5 rebalances were not planned; w2 caused 2 of them" in text
    assert "w2 sent no heartbeat for 6.1 s" in text
    assert "The picture needs JavaScript; the table below does not." in text
    assert opened.page.locator("table.rebalances tbody tr").count() == 5
    assert not opened.page.locator("button:visible").count()


def test_on_paper_it_is_light_and_as_wide_as_the_page(open_page: Open, report: Report) -> None:
    opened = open_page(report.html(), color_scheme="dark")
    opened.page.evaluate("window.seen = null; addEventListener('beforeprint', () => setTimeout(() => 0))")
    printed = opened.page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF-")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") + printed.count(b"/Type/Page") >= 1
    assert len(printed) > 20_000
    opened.page.emulate_media(media="print")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.timeline("theme.isDark") is False
    assert opened.page.locator("nav").is_hidden()
    assert opened.page.locator("section:not(.incidents) th:nth-child(4)").inner_text() == "cause"
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.timeline("theme.isDark") is True


def test_dark_follows_the_system_and_the_button(open_page: Open, report: Report) -> None:
    opened = open_page(report.html(), color_scheme="dark")
    assert opened.timeline("theme.isDark") is True
    dark = opened.colour(member="w2", ms=at_second(5))
    opened.page.click("button[data-action=theme]")
    assert opened.timeline("theme.isDark") is False
    assert opened.colour(member="w2", ms=at_second(5)) != dark


def test_several_groups_have_a_chooser_and_an_address(open_page: Open, bad_day: Any) -> None:
    report = Report.of_events(bad_day(group="a").events + bad_day(group="b", names=("x1", "x2")).events)
    opened = open_page(report.html())
    assert opened.page.locator("section:visible h2").all_inner_texts() == ["Incidents", "a"]
    opened.page.select_option("#group", "b")
    opened.page.wait_for_selector("section:not([hidden]) .timeline canvas")
    opened.page.keyboard.press("u")
    assert opened.at(rebalance=LOST)["member"] == "x2"
    assert "group=b&rebalance=3" in opened.page.url
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready]", state="attached")
    assert opened.timeline("chosen") == LOST


def test_a_notebook_shows_it_in_a_sandboxed_frame(open_page: Open, report: Report) -> None:
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'self' 'unsafe-inline'\">"
    shown = report._repr_mimebundle_()["text/html"]
    opened = open_page(f"<!doctype html><meta charset=latin-1>{policy}{shown}", is_ready=False)
    [frame] = [each for each in opened.page.frames if each != opened.page.main_frame]
    frame.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)
    assert frame.evaluate("document.querySelector('.timeline').timeline.story.group") == "orders"
    assert opened.page.locator("details table.rebalances").count() == 1


def test_a_long_table_is_whole_once_it_is_asked_for_searched_or_printed(open_page: Open) -> None:
    rebalances = [StoryRebalance(started_ms=at * 1_000, sentence=f"{HOSTILE} {at}.") for at in range(250)]
    page = Report((story("g", [], rebalances),)).html()
    opened = open_page(page)
    rows = opened.page.locator("table.rebalances tbody tr")
    assert rows.count() == 100
    opened.page.click("text=Show all 250 rebalances")
    assert rows.count() == 250
    assert rows.nth(249).inner_text().endswith(f"{HOSTILE} 249.")
    assert opened.page.locator("img").count() == 0
    searched = open_page(page)
    searched.page.keyboard.press("/")
    searched.page.keyboard.type("> 249.")
    assert searched.page.locator("table.rebalances tbody tr:visible").count() == 1
    printed = open_page(page)
    printed.page.pdf()
    assert printed.page.locator("table.rebalances tbody tr").count() == 250
    plain = open_page(page, is_ready=False, java_script_enabled=False)
    assert plain.page.locator("table.rebalances tbody tr").count() == 250
    assert opened.errors == []


def test_an_empty_report_is_a_sentence(open_page: Open) -> None:
    opened = open_page(Report(()).html(), is_ready=False)
    assert "There is no rebalance in the evidence." in opened.page.inner_text("body")
    assert opened.errors == []


def test_a_group_without_members_or_lag_can_be_shown(open_page: Open, bad_day: Any) -> None:
    triggers = [event for event in bad_day().events if event.kind == "trigger"]
    opened = open_page(Report.of_events(triggers).html())
    assert opened.errors == []
    assert "No lag here" in opened.page.inner_text("aside")
