"""Where there is no terminal, each finished step is one line."""

import io

import pytest
from rich.console import Console

from ottla.cli.demo.display import Display


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
