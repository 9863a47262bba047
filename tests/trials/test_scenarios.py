"""Scenario files: parsed, run, checked and rewritten."""

from pathlib import Path

import pytest

from trials.__main__ import main
from trials.scenarios import scenarios
from trials.scenarios.commands import ScenarioError

FILE_TEXT = """# A consumer that is not a member.
commit g flights/0=42
----
record offset g flights/0 = 42
reply  #1 OffsetCommit NONE

given commit g flights/0=43
----

show g
----
group  g Empty gen=0 protocol=- leader=- pending=[]
offset flights/0 = 43
"""


def test_a_file_with_the_right_effects(tmp_path: Path) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text(FILE_TEXT)
    scenarios.check(path)
    assert scenarios.run_text(FILE_TEXT) == FILE_TEXT


def test_a_file_with_wrong_effects_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scenarios.REWRITE_FLAG, raising=False)
    path = tmp_path / "scenario.txt"
    path.write_text(FILE_TEXT.replace("NONE", "UNKNOWN_MEMBER_ID"))
    with pytest.raises(AssertionError, match="make scenarios"):
        scenarios.check(path)


def test_the_flag_rewrites_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scenarios.REWRITE_FLAG, "1")
    path = tmp_path / "scenario.txt"
    path.write_text(FILE_TEXT.replace("NONE", "UNKNOWN_MEMBER_ID").replace("= 43", "= 44"))
    scenarios.check(path)
    assert path.read_text() == FILE_TEXT


def test_time_passes_and_timers_are_shown_with_their_time() -> None:
    observed = scenarios.run_text("join g - new=m1 session=6s\n----\n\nwait 5s\n----\n\nwait 5s\n----\n")
    assert "(nothing)" in observed
    assert "at 6000\n  log    Pending member m1" in observed


def test_parked_requests_are_shown() -> None:
    assert "parked #1\n" in scenarios.run_text("join g - new=m1 old=yes\n----\n")


def test_failures_restarts_and_settings() -> None:
    observed = scenarios.run_text(
        "settings group_max_size=1\n----\n\nappend-fails REQUEST_TIMED_OUT\ncommit g t/0=1\n----\n\n"
        "commit g t/0=2\n----\n\nrestart\nshow g\n----\n\nloading\nfetch g\nloaded\nresign\nfetch g\nshow g\n----\n"
    )
    assert "COORDINATOR_NOT_AVAILABLE" in observed
    assert "offset t/0 = 2" in observed
    assert "COORDINATOR_LOAD_IN_PROGRESS" in observed
    assert "NOT_COORDINATOR" in observed
    assert observed.endswith("no group g\n")


@pytest.mark.parametrize("text", ["fetch g\n", "nonsense g\n----\n", "settings unheard_of=1\n----\n", "join\n----\n"])
def test_a_line_that_cannot_be_parsed_is_named(text: str) -> None:
    with pytest.raises(ScenarioError):
        scenarios.run_text(text)


def test_the_command_line_prints_what_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.txt"
    path.write_text(FILE_TEXT)
    assert main(["scenarios", "--print", str(path)]) == 0
    assert capsys.readouterr().out == FILE_TEXT
