"""What the demo leaves, and its progress."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Display, Results


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    results = Results(tmp_path / "demo-results")
    results.prepare()
    results.consumer_log("consumer-1").write_text("old")
    results.prepare()
    assert [path.name for path in results.directory.iterdir()] == ["summary.json"]
    assert json.loads((results.directory / "summary.json").read_text()) == {"finished": False}


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    Results(tmp_path).prepare()
    assert (tmp_path / "summary.json").is_file()


def test_what_is_not_ours_is_never_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DemoFailedError, match="--results"):
        Results(tmp_path).prepare()
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoFailedError):
        Results(tmp_path / "file").prepare()


def test_a_step_is_a_line_with_its_seconds() -> None:
    out = io.StringIO()
    with Display(Console(file=out, width=100)) as display:
        with display.bars("replayed", total=10) as (bar,), display.step("it happens"):
            display.advance(bar, 5)
            display.tell_detail("something")
        assert display.durations_s.keys() == {"it happens"}
    assert out.getvalue() == "✓   0.0 s  it happens\n"


def test_a_step_that_fails_is_marked_and_not_counted() -> None:
    out = io.StringIO()
    display = Display(Console(file=out, width=100))
    with pytest.raises(RuntimeError), display, display.step("it happens"):
        raise RuntimeError
    assert out.getvalue() == "✗   0.0 s  it happens\n"
    assert display.durations_s == {}


def test_on_a_terminal_the_present_step_is_shown_with_its_bars() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, height=40, force_terminal=True, color_system=None)
    with Display(console) as display, display.bars("replayed", total=10) as (bar,), display.step("it happens"):
        display.tell_detail("something")
        display.advance(bar, 5)
        display._live.refresh()
    assert "it happens" in out.getvalue()
    assert "waiting for something" in out.getvalue()
    assert " 5/10 flights" in out.getvalue()
