"""A program beside a test: its events, signals, and its end."""

import signal
import sys
from pathlib import Path

import pytest

from ottla.testing.processes.line_program import LineProgram, ProgramEnded

ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"event": line.strip()}), flush=True)
    if line.strip() == "talk":
        print("not JSON", flush=True)
"""


def test_it_takes_lines_and_reports_events(tmp_path: Path) -> None:
    with LineProgram([sys.executable, "-c", ECHO], error_path=tmp_path / "errors") as program:
        program.send("talk")
        assert program.wait_for(lambda events: len(events) == 2 and events, "two events") == [
            {"event": "talk"},
            {"event": "said", "line": "not JSON"},
        ]
        with pytest.raises(TimeoutError, match="a third"):
            program.wait_for(lambda events: events, "a third", since=2, seconds=0.05)


def test_one_that_is_stopped_goes_on_and_one_that_is_killed_does_not(tmp_path: Path) -> None:
    program = LineProgram([sys.executable, "-c", ECHO], error_path=tmp_path / "errors")
    program.send_signal(signal.SIGSTOP)
    program.send("late")
    with pytest.raises(TimeoutError):
        program.wait_for(lambda events: events, "an event while it is stopped", seconds=0.1)
    program.send_signal(signal.SIGCONT)
    program.wait_for(lambda events: events, "its event")
    program.kill()
    with pytest.raises(ProgramEnded):
        program.wait_for(lambda events: len(events) > 1, "more")
