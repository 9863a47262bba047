"""Scenario files: parsed, run, checked and rewritten."""

from pathlib import Path

import pytest

from ottla.testing import scenarios
from ottla.testing.scenario_commands import ScenarioError

STORY = """# A consumer that is no member.
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


def test_a_story_that_is_true(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    scenarios.check(path)
    assert scenarios.run(STORY) == STORY


def test_a_story_that_is_not_true_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scenarios.REWRITE_FLAG, raising=False)
    path = tmp_path / "story.txt"
    path.write_text(STORY.replace("NONE", "UNKNOWN_MEMBER_ID"))
    with pytest.raises(AssertionError, match="make scenarios"):
        scenarios.check(path)


def test_the_flag_rewrites_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scenarios.REWRITE_FLAG, "1")
    path = tmp_path / "story.txt"
    path.write_text(STORY.replace("NONE", "UNKNOWN_MEMBER_ID").replace("= 43", "= 44"))
    scenarios.check(path)
    assert path.read_text() == STORY


def test_time_passes_and_timers_are_told_with_their_time() -> None:
    told = scenarios.run("join g - new=m1 session=6s\n----\n\nwait 5s\n----\n\nwait 5s\n----\n")
    assert "(nothing)" in told
    assert "at 6000\n  log    Pending member m1" in told


def test_requests_that_wait_are_told_as_parked() -> None:
    assert "parked #1\n" in scenarios.run("join g - new=m1 old=yes\n----\n")


def test_failures_restarts_and_settings() -> None:
    told = scenarios.run(
        "settings group_max_size=1\n----\n\nappend-fails REQUEST_TIMED_OUT\ncommit g t/0=1\n----\n\n"
        "commit g t/0=2\n----\n\nrestart\nshow g\n----\n\nloading\nfetch g\nloaded\nresign\nfetch g\nshow g\n----\n"
    )
    assert "COORDINATOR_NOT_AVAILABLE" in told
    assert "offset t/0 = 2" in told
    assert "COORDINATOR_LOAD_IN_PROGRESS" in told
    assert "NOT_COORDINATOR" in told
    assert told.endswith("no group g\n")


@pytest.mark.parametrize("text", ["fetch g\n", "nonsense g\n----\n", "settings unheard_of=1\n----\n", "join\n----\n"])
def test_what_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(ScenarioError):
        scenarios.run(text)


def test_the_command_line_prints_what_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    assert scenarios.main([str(path)]) == 0
    assert capsys.readouterr().out == STORY
