"""`ottla whatif`: options, and predictions as text and as JSON."""

import io
import json
import sys
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli import whatif as module
from ottla.cli import whatif as run_module
from ottla.cli.diagnose import SourceOptions
from ottla.cli.main import main
from ottla.cli.whatif import NAME_WIDTH, ROWS_MAX, WIDTH, WhatifOptions, answer, run, text, to_dict
from ottla.history.reading import Gathered
from ottla.history.sources.evidence import Evidence
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.whatif.behaviour import Action, ActionKind
from ottla.history.whatif.prediction import find_settings, predict
from ottla.history.whatif.replay import replay
from ottla.history.whatif.settings import Settings
from tests.support.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
GROUP = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = list(evidence_of_events(replay(GROUP).events, clock="c"))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "read_sources", lambda *_, **__: Gathered(EVIDENCE))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["whatif", *arguments, "--archive", "somewhere"])


@pytest.mark.usefixtures("recorded")
def test_what_other_settings_would_have_changed() -> None:
    found = invoke("g", "--set", "session.timeout.ms=9000", "--assignor", "sticky", "--json")
    assert found.exit_code == 0, found.output
    said = json.loads(found.output)
    assert said["settings"] == {"session.timeout.ms": "9000", "partition.assignment.strategy": "sticky"}
    assert said["after"]["unplanned"] == 0


@pytest.mark.usefixtures("recorded")
def test_an_assignor_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assignor_of_a_whatif.py").write_text(
        "from ottla.groups.assignors import Assignor\n\n"
        "class Everything(Assignor):\n"
        "    name = 'everything'\n"
        "    def assign(self, members, partitions, racks):\n"
        "        mine = {topic: list(range(count)) for topic, count in partitions.items()}\n"
        "        return {each.member_id: mine if each is members[0] else {} for each in members}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    found = invoke("g", "--assignor", "assignor_of_a_whatif:Everything", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["settings"] == {"partition.assignment.strategy": "assignor_of_a_whatif:Everything"}


@pytest.mark.usefixtures("recorded")
def test_an_assignor_that_there_is_not() -> None:
    found = invoke("g", "--assignor", "stickey")
    assert (found.exit_code, "did you mean 'sticky'" in found.output) == (2, True)


@pytest.mark.usefixtures("recorded")
def test_the_cheapest_settings() -> None:
    found = invoke("g", "--search", "--at-most", "1")
    assert found.exit_code == 0, found.output
    assert "session.timeout.ms=11000" in found.output


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["g"], "give settings with --set"),
        (["g", "--search"], "--search and --at-most go together"),
        (["g", "--search", "--at-most", "1", "--set", "session.timeout.ms=9000"], "or else --search"),
        (["g", "--set", "session.timeuot.ms=9000"], "did you mean 'session.timeout.ms'"),
        (["g", "--set", "group.instance.id=on", "--since", "yesterday"], "is no time"),
        (["g", "--set", "group.instance.id=off", "--recorded", "nonsense=1"], "no setting of a what-if"),
    ],
)
def test_usage_errors_say_what_to_write(arguments: list[str], said: str) -> None:
    found = invoke(*arguments)
    assert found.exit_code == 2
    assert said in found.output


@pytest.mark.usefixtures("recorded")
def test_a_group_without_rebalances_ends_with_1() -> None:
    found = invoke("other", "--set", "session.timeout.ms=9000")
    assert (found.exit_code, "no rebalance of the group" in found.output) == (1, True)


def test_a_prediction() -> None:
    found = json.loads(json.dumps(to_dict(predict("g", EVIDENCE, Settings(session_timeout_ms=9_000)))))
    assert (found["recorded_rebalances"], found["reproduced_rebalances"], found["extra_rebalances"]) == (3, 3, 0)
    assert found["settings"] == {"session.timeout.ms": "9000"}
    assert (found["before"]["unplanned"], found["after"]["unplanned"]) == (2, 0)
    assert [each["after"] for each in found["rebalances"]] == ["stays", "gone", "gone"]
    assert found["before"]["causes"] == {"EXPIRE_HEARTBEAT": 2, "COLD_START": 1}


def test_a_search() -> None:
    found = to_dict(find_settings("g", EVIDENCE, at_most=0))
    assert found["best"]["settings"] == {"session.timeout.ms": "11000"}
    assert [option["unplanned"] for option in found["front"]] == [2, 0]


SILENCES = tuple(Action(at_ms=20_000 * at, kind=ActionKind.SILENCE, until_ms=20_000 * at + 8_000) for at in range(1, 30))
LONG = "a-client-with-a-name-that-is-longer-than-its-column\x1b[31m"


def evidence(*silences: Action, name: str = "a") -> list[Evidence]:
    group = behaviour(process(name, START, *silences), process("b", START), ended_ms=700_000)
    return list(evidence_of_events(replay(group).events, clock="c"))


def test_a_comparison_fits_the_width_and_says_what_is_gone() -> None:
    lines = list(text(predict("g", evidence(*SILENCES[:2], name=LONG), Settings(session_timeout_ms=9_000))))
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("  unplanned  ") and line.split()[1:] == ["4", "0"] for line in lines)
    rows = [line for line in lines if line.endswith("gone")]
    assert len(rows) == 4
    assert all("EXPIRE_HEARTBEAT" in row for row in rows)
    assert all(len(row) <= WIDTH for row in rows)
    assert "\x1b" not in "".join(lines)
    assert NAME_WIDTH < WIDTH


def test_long_lists_are_cut() -> None:
    lines = list(text(predict("g", evidence(*SILENCES), Settings(session_timeout_ms=9_000))))
    assert f"... and {2 * len(SILENCES) - ROWS_MAX} more (--json lists all)" in lines


def test_a_search_prints_what_each_step_buys() -> None:
    lines = list(text(find_settings("g", evidence(*SILENCES[:2]), at_most=0)))
    assert any(line.endswith("as recorded") for line in lines)
    assert any(line.endswith("session.timeout.ms=11000") for line in lines)
    assert any("The last one meets the goal" in line for line in lines)


def test_goals_that_are_met_already_or_never() -> None:
    assert any("recorded settings meet the goal" in line for line in text(find_settings("g", evidence(), at_most=0)))
    crash = Action(at_ms=20_000, kind=ActionKind.CRASH)
    assert any("None of the" in line for line in text(find_settings("g", evidence(crash), at_most=0)))


def test_a_replay_that_differs_is_said() -> None:
    found = predict("g", evidence(*SILENCES[:1]), Settings(session_timeout_ms=9_000))
    differing = replace(found, agreement=replace(found.agreement, extra_ms=(5,)))
    lines = list(text(differing))
    assert any("3 of 3 recorded rebalances, 1 others" in line for line in lines)
    assert any("tendency" in line for line in lines)


def test_times_that_no_calendar_has_are_numbers() -> None:
    found = predict("g", evidence(*SILENCES[:1]), Settings(session_timeout_ms=9_000))
    far = replace(found.behaviour, started_ms=10**17, ended_ms=10**17)
    assert any(str(10**17) in line for line in text(replace(found, behaviour=far)))


SET, NOTHING = Settings(session_timeout_ms=9_000), Settings()


def options(group: str = "g", *, settings: Settings = SET, at_most: float | None = None, as_json: bool = True) -> WhatifOptions:
    sources = SourceOptions(archives=("somewhere",), groups=(group,))
    return WhatifOptions(sources=sources, group=group, settings=settings, recorded=NOTHING, at_most=at_most, as_json=as_json)


def test_json_is_one_line_and_text_is_several() -> None:
    (line,) = answer(options(), EVIDENCE)
    assert json.loads(line)["after"]["unplanned"] == 0
    (line,) = answer(options(settings=NOTHING, at_most=0), EVIDENCE)
    assert json.loads(line)["best"]
    assert len(answer(options(as_json=False), EVIDENCE)) > 10


def test_only_what_happened_between_the_times_counts() -> None:
    early = WhatifOptions(sources=SourceOptions(), group="g", settings=SET, recorded=NOTHING, since_ms=0, until_ms=20_000)
    assert any("1 of 1 recorded rebalances" in line for line in answer(early, EVIDENCE))
    late = replace(early, since_ms=27_000, until_ms=None)
    assert any("1 of 1 recorded rebalances" in line for line in answer(late, EVIDENCE))


def test_the_report_goes_to_stdout_and_notes_on_sources_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_sources", lambda *_, **__: Gathered(EVIDENCE, ["a note"]))
    out, err = io.StringIO(), io.StringIO()
    assert run(options(), zone=UTC, out=out, err=err) == 0
    assert (out.getvalue().count("\n"), err.getvalue()) == (1, "a note\n")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (WhatifOptions(sources=SourceOptions(), group="g", settings=SET, recorded=NOTHING), "nothing to read"),
        (options(), "not there"),
    ],
)
def test_sources_that_cannot_be_used_are_said(wanted: WhatifOptions, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = io.StringIO(), io.StringIO()
    assert run(wanted, zone=UTC, out=out, err=err) == 1
    assert out.getvalue() == ""
    assert err.getvalue().startswith("Error: ")
    assert said in err.getvalue() or "no such directory" in err.getvalue()


def test_a_group_without_rebalances_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_sources", lambda *_, **__: Gathered(EVIDENCE))
    err = io.StringIO()
    assert run(options("other"), zone=UTC, out=io.StringIO(), err=err) == 1
    assert err.getvalue() == "Error: the evidence shows no rebalance of the group 'other'\n"
