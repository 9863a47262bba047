"""The scorer of days finds what is told wrong, what is not told, and what is told twice; a recorded day can be scored again."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.history.incidents import find_incidents
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.verdicts.verdict import Confidence, Verdict
from trials.day.accidents import add_accidents
from trials.day.actions import KINDS
from trials.day.calibration import MODULE, Line, fit, lines_of, module_text
from trials.day.day import revival
from trials.day.incident_scoring import score_incidents
from trials.day.ledger import Action, Day, Step
from trials.day.monotony import worsened_verdicts
from trials.day.recording import read_day, write_day
from trials.day.scoring import HELD, MISSED, RIGHT, SETS, WRONG, read_evidence, report, score, worsened

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parents[1] / "data" / "days"
KEPT_DAYS = sorted(path for path in KEPT.iterdir() if path.is_dir())


def _day(*actions: Action) -> Day:
    return Day(seed=1, broker="ottla", from_ms=0, to_ms=100_000, actions=list(actions))


def _restart(from_ms: int = 10_000, *, group: str = "orders") -> Action:
    step = Step(group=group, from_ms=from_ms, to_ms=from_ms + 5_000, causes=("RESTART_DYNAMIC",), also=("COOP_FOLLOWUP",))
    to_ms = from_ms + 6_000
    return Action(kind="restart", incident="restart", planned=True, culprits=(f"{group}-1",), from_ms=from_ms, to_ms=to_ms, steps=[step])


def _verdict(cause: str, *more: str, at_ms: int = 12_000, confidence: str = "high", **named: Any) -> dict[str, Any]:
    return {
        "group": "orders",
        "generation": at_ms // 1_000,
        "started_ms": at_ms,
        "ended_ms": None,
        "kind": "rebalance",
        "cause": cause,
        "candidates": [cause, *more],
        "confidence": confidence,
        "contributing": [],
        "who": None,
        "members_before": 2,
        "members_after": 2,
        "evidence": {},
    } | named


def _outcome(verdicts: Sequence[dict[str, Any]], *actions: Action) -> str:
    (told,) = score(_day(*(actions or [_restart()])), verdicts).incidents[:1]
    return told.outcome


def test_an_incident_is_right_held_missed_or_wrong() -> None:
    assert _outcome([_verdict("RESTART_DYNAMIC"), _verdict("COOP_FOLLOWUP", at_ms=13_000)]) == RIGHT
    assert _outcome([_verdict("JOIN_NEW", contributing=["RESTART_DYNAMIC"], confidence="low")]) == WRONG
    assert _outcome([_verdict("JOIN_NEW", "RESTART_DYNAMIC", confidence="medium")]) == HELD
    assert _outcome([_verdict("UNKNOWN", confidence="low")]) == HELD
    assert _outcome([_verdict("JOIN_NEW", "RESTART_DYNAMIC", confidence="high")]) == WRONG, "it says that it is sure"
    assert _outcome([_verdict("RESTART_DYNAMIC"), _verdict("EXPIRE_HEARTBEAT", at_ms=13_000)]) == WRONG, "each sentence has to be right"
    assert _outcome([_verdict("COOP_FOLLOWUP")]) == WRONG, "a second half alone does not tell of a restart"
    assert _outcome([_verdict("RESTART_DYNAMIC", at_ms=16_000), _verdict("RESTART_DYNAMIC", group="billing")]) == MISSED


def test_a_late_return_has_the_cause_of_its_loss() -> None:
    who = {"client_id": _restart().culprits[0], "instance_id": None}
    late = [_verdict("RESTART_DYNAMIC"), _verdict("RESTART_DYNAMIC", at_ms=32_000, who=who, evidence={"absence_ms": 20_000})]
    step = Step(group="orders", from_ms=31_000, to_ms=33_000, causes=("TOPIC_CHANGE",), is_required=False)
    topic = Action(kind="add_partitions", incident="topic change", planned=True, culprits=(), from_ms=31_000, to_ms=33_000, steps=[step])
    assert [told.outcome for told in score(_day(_restart(), topic), late).incidents] == [RIGHT, RIGHT]
    late[1]["members_after"] = 1
    assert [told.outcome for told in score(_day(_restart(), topic), late).incidents] == [RIGHT, WRONG], "a loss is no return"


def test_what_comes_while_a_rebalance_runs_is_told_by_it() -> None:
    step = Step(group="orders", from_ms=13_000, to_ms=15_000, causes=("JOIN_NEW",))
    join = Action(kind="scale_up", incident="scaling", planned=True, culprits=(), from_ms=13_000, to_ms=15_000, steps=[step])
    verdicts = [_verdict("RESTART_DYNAMIC", ended_ms=14_000, contributing=["JOIN_NEW"])]
    assert [told.outcome for told in score(_day(_restart(), join), verdicts).incidents] == [RIGHT, RIGHT]
    verdicts[0]["contributing"] = []
    assert [told.outcome for told in score(_day(_restart(), join), verdicts).incidents] == [RIGHT, MISSED]


def test_what_others_do_meanwhile_is_not_wrong_and_hides_what_is_not_told() -> None:
    step = Step(group="orders", from_ms=11_000, to_ms=13_000, causes=("TOPIC_CHANGE",))
    topic = Action(kind="add_partitions", incident="topic change", planned=True, culprits=(), from_ms=11_000, to_ms=13_000, steps=[step])
    verdicts = [_verdict("RESTART_DYNAMIC"), _verdict("RESTART_DYNAMIC", at_ms=13_500)]
    assert [told.outcome for told in score(_day(_restart(), topic), verdicts).incidents] == [RIGHT, MISSED]
    verdicts.append(_verdict("TOPIC_CHANGE", at_ms=12_500))
    assert [told.outcome for told in score(_day(_restart(), topic), verdicts).incidents] == [RIGHT, RIGHT]
    verdicts.append(_verdict("JOIN_NEW", at_ms=12_700))
    assert [told.outcome for told in score(_day(_restart(), topic), verdicts).incidents] == [RIGHT, WRONG], "the one that began last"


def test_what_failed_or_was_disturbed_is_not_judged() -> None:
    failed = _restart()
    failed.failure = "TimeoutError()"
    assert not score(_day(failed), [_verdict("JOIN_NEW")]).by_confidence()
    day = _day(_restart())
    day.disturbed = [(9_000, 11_000)]
    assert not score(day, [_verdict("JOIN_NEW")]).incidents
    assert not score(day, [_verdict("JOIN_NEW")]).by_confidence()


def test_figures_of_verdicts_that_are_certain_that_come_twice_and_that_get_worse() -> None:
    day = _day(_restart(), _restart(50_000))
    log = score(day, [_verdict("RESTART_DYNAMIC"), _verdict("RESTART_DYNAMIC", at_ms=51_000)])
    more = score(day, [_verdict("RESTART_DYNAMIC"), _verdict("JOIN_NEW", at_ms=51_000), _verdict("JOIN_NEW", at_ms=51_000)])
    assert (log.twice, more.twice) == (0, 1)
    assert log.by_confidence()["high"] == {RIGHT: 2}
    assert more.by_confidence()["high"] == {RIGHT: 1, WRONG: 2}
    assert worsened({"broker log": log, "all": more}) == ["restart: right by broker log, wrong by all"]
    lines = report(day, {"broker log": log, "all": more}, with_wrong=True)
    assert any(line.split()[-9:] == ["all", "2", "1", "0", "0", "1", "1/3", "1", "0"] for line in lines)
    assert any("wrong: 50 s restart in orders (orders-1), expected RESTART_DYNAMIC" in line for line in lines)


def test_the_first_screen_names_each_action_once_and_makes_nothing_up() -> None:
    restarted = {"candidates": (Cause.RESTART_DYNAMIC,), "confidence": Confidence.HIGH, "planned": False, "avoidable": True}
    who = Identity("orders-1-id", None, "orders-1")
    known = {"group": "orders", "generation": 1, "ended_ms": None, "kind": "rebalance", "cause": Cause.RESTART_DYNAMIC, "who": who}

    def screen(*verdicts: Verdict) -> tuple[int, int, int]:
        found = score_incidents(_day(_restart()), [find_incidents([verdict])[0] for verdict in verdicts])
        return found.named, found.twice, len(found.made_up)

    restart = Verdict(started_ms=12_000, **(known | restarted))
    assert screen(restart) == (1, 0, 0)
    assert screen() == (0, 0, 0)
    assert screen(restart, restart) == (1, 1, 0)
    assert screen(Verdict(started_ms=40_000, **(known | restarted))) == (0, 0, 1), "nothing was done then"
    assert screen(Verdict(started_ms=12_000, **(known | restarted | {"cause": Cause.EXPIRE_HEARTBEAT}))) == (0, 0, 1), "another name"
    other = {"who": Identity("orders-2-id", None, "orders-2")}
    assert screen(Verdict(started_ms=12_000, **(known | restarted | other))) == (0, 0, 0), "of another member"


def test_what_happens_without_an_action_is_put_into_the_ledger() -> None:
    expired = "[1970-01-01 00:01:10,500] INFO [GroupCoordinator id=1] Member orders-2-x in group orders has failed, removing it. (x)\n"
    day = _day(_restart())
    add_accidents(day, [expired, "Member orders-2-x in group orders has failed\n"])
    (_, accident) = day.actions
    (step,) = accident.steps
    assert (accident.culprits, step.group, step.causes) == (("orders-2-x",), "orders", ("EXPIRE_HEARTBEAT",))

    known = Step(group="orders", from_ms=step.from_ms - 1_000, to_ms=step.to_ms, causes=("EXPIRE_HEARTBEAT",))
    paused = Action(kind="pause", incident="pause", planned=False, culprits=("orders-2",), from_ms=0, to_ms=0, steps=[known])
    day = _day(paused)
    add_accidents(day, [expired])
    assert day.actions == [paused]

    unloaded = "[1970-01-01 00:01:08,000] INFO [GroupCoordinator id=1] [GroupId=orders] Unloading group metadata for generation 33. (x)\n"
    day = _day(_restart())
    add_accidents(day, [unloaded, expired])
    assert [action.kind for action in day.actions] == ["restart", "fenced_broker"], "the broker explains the session"
    assert "COORDINATOR_MOVE" in day.actions[1].steps[0].causes


def test_a_member_whose_library_aborts_is_a_crash_in_the_ledger() -> None:
    crash = revival("orders", "orders-1", 50_000, died_of=signal.SIGABRT)
    assert (crash.kind, crash.incident, crash.culprits) == ("died of SIGABRT", "crash", ("orders-1",))
    (step,) = crash.steps
    assert step.from_ms < 50_000 < step.to_ms
    assert "RESTART_DYNAMIC" in step.causes
    ended = revival("orders", "orders-1", 50_000, died_of=None)
    assert (ended.kind, ended.incident) == ("revive", "none")


def test_a_recorded_day_is_read_again_and_does_not_name_the_machine(tmp_path: Path) -> None:
    happened = tmp_path / "run"
    for name, text in {
        "broker.log": f"[x] INFO Group coordinator.group {happened}/kafka\n",
        "clients/orders-1.log": f"hello {happened}\n",
        "archive/a.jsonl": "{}\n",
    }.items():
        path = happened / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    day = _day(_restart())
    write_day(day, happened, tmp_path / "kept")
    assert read_day(tmp_path / "kept", tmp_path / "read") == day
    assert (tmp_path / "read/broker.log").read_text() == "[x] INFO Group coordinator.group /data/kafka\n"
    assert (tmp_path / "read/clients/orders-1.log").read_text() == "hello /data\n"
    assert (tmp_path / "read/archive/a.jsonl").exists()


@pytest.fixture(scope="module")
def kept_days(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Day, Sequence[Evidence]]]:
    days = []
    for kept in KEPT_DAYS:
        directory = tmp_path_factory.mktemp(kept.name)
        days.append((read_day(kept, directory), read_evidence(directory)))
    return days


def test_another_source_never_turns_right_into_wrong(kept_days: list[tuple[Day, Sequence[Evidence]]]) -> None:
    worse = [line for day, evidence in kept_days for line in worsened_verdicts(day, evidence, random.Random(day.seed), 1)]
    assert worse == []


def test_a_source_that_makes_it_worse_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = (Source.BROKER_LOG, Source.CLIENT_LOG)
    evidence = [Evidence(kind=Kind.TRIGGER, source=source, at_ms=12_000, clock=source, group="orders") for source in sources]
    causes = {frozenset({Source.BROKER_LOG}): Cause.RESTART_DYNAMIC}

    def judge_evidence(items: Sequence[Evidence]) -> list[Verdict]:
        cause = causes.get(frozenset(item.source for item in items), Cause.JOIN_NEW)
        known = {"candidates": (cause,), "confidence": Confidence.HIGH, "planned": True, "avoidable": False, "kind": "rebalance"}
        return [Verdict(group="orders", generation=12, started_ms=12_000, ended_ms=None, cause=cause, **known)]

    monkeypatch.setattr("trials.day.monotony.judge_evidence", judge_evidence)
    worse = worsened_verdicts(_day(_restart()), evidence, random.Random(1), 0)
    assert "orders generation 12: RESTART_DYNAMIC by broker.log, JOIN_NEW by broker.log, clients" in worse


def test_confidences_are_fitted_to_the_days_that_are_kept(kept_days: list[tuple[Day, Sequence[Evidence]]]) -> None:
    shares = fit(line for day, evidence in kept_days for line in lines_of(day, evidence))
    assert (ROOT / MODULE).read_text() == module_text(shares), "python -m trials day --calibrate"


def test_a_share_is_enough_from_where_verdicts_are_right_as_often_as_they_say() -> None:
    lines = [Line(0.3, Confidence.HIGH, False), *(Line(0.6, Confidence.HIGH, at > 0) for at in range(5)), Line(0.9, Confidence.HIGH, True)]
    assert fit(lines) == {Confidence.HIGH: 0.9, Confidence.MEDIUM: 0.6}
    assert fit([Line(0.9, Confidence.MEDIUM, True)]) == {Confidence.HIGH: 1.0, Confidence.MEDIUM: 0.9}


@pytest.mark.parametrize("kept", KEPT_DAYS, ids=lambda kept: kept.name)
def test_days_that_rules_are_made_with_are_kept_and_small(kept: Path, tmp_path: Path) -> None:
    day = read_day(kept, tmp_path)
    assert f"{day.broker}-{day.seed}" == kept.name
    assert len({action.kind for action in day.actions}) >= 30
    assert (tmp_path / "broker.log").stat().st_size
    assert sum(path.stat().st_size for path in kept.iterdir()) < 1_000_000


def test_there_are_many_kinds_of_actions() -> None:
    assert len(KINDS) >= 40
    assert set(SETS["all"]) == {name for names in SETS.values() for name in names}
