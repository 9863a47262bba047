from dataclasses import replace

from ottla.cli.whatif.text import NAME_WIDTH, ROWS_MAX, WIDTH, text
from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.prediction import find_settings, predict
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCES = tuple(Action(at_ms=20_000 * at, kind=ActionKind.SILENCE, until_ms=20_000 * at + 8_000) for at in range(1, 30))
LONG = "a-client-with-a-name-that-is-longer-than-its-column\x1b[31m"


def evidence(*silences: Action, name: str = "a") -> list[Evidence]:
    group = behaviour(process(name, START, *silences), process("b", START), ended_ms=700_000)
    return [item for event in replay(group).events if (item := evidence_of_event(event, clock="c")) is not None]


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
