import html
import json
import re

import pytest

from ottla.console.report.report import Report
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import story

REPORT = Report((story("orders", [], [StoryRebalance(started_ms=1, planned=False, sentence="w1 came back.")]),), note="made in a test")


def test_a_notebook_gets_a_sandboxed_frame_a_table_and_text() -> None:
    bundle = REPORT._repr_mimebundle_()
    [frame] = re.findall(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)"', bundle["text/html"])
    assert html.unescape(frame) == REPORT.html()
    assert '<table class="rebalances">' in bundle["text/html"].partition("</iframe>")[2]
    assert "▼ w1 came back." in bundle["text/plain"]


def test_elsewhere_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    REPORT.show()
    assert "orders: Unknown. 1 of 1 rebalance was not planned" in capsys.readouterr().out


def test_it_is_json_too() -> None:
    values = json.loads(json.dumps(REPORT.to_dict()))
    assert values["stories"][0]["rebalances"]["sentence"] == ["w1 came back."]


def test_without_events_it_says_so() -> None:
    assert str(Report.of_events([])) == "There is no rebalance in the evidence."
