"""What other settings change in a replay, how well a replay agrees with the record, and the search for settings."""

from dataclasses import replace

import pytest

from ottla.history.sources.evidence import Cause, Evidence, Kind, Source
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, LeaderRejoin
from ottla.history.whatif.outcome import Outcome, ReplayedRebalance
from ottla.history.whatif.prediction import (
    CANDIDATES_MAX,
    Agreement,
    agreement,
    compare,
    evidence_of_group,
    find_settings,
    outcome_with,
    predict,
    search,
)
from ottla.history.whatif.reconstruction import reconstruct
from ottla.history.whatif.replay import replay
from ottla.history.whatif.settings import Settings
from tests.support.kit.evidence import EvidenceLog
from tests.support.kit.group_behaviours import behaviour, process


def replayed(*times_ms: int) -> Outcome:
    rebalances = tuple(
        ReplayedRebalance(at_ms=at_ms, generation=1, cause=Cause.JOIN_NEW, process="a", planned=True, keys=frozenset())
        for at_ms in times_ms
    )
    return Outcome(rebalances=rebalances, avoided=(), stopped_ms=0, waiting_ms=0)


def test_each_recorded_rebalance_is_matched_once() -> None:
    found = agreement([0, 10_000, 20_000, 60_000], replayed(500, 9_000, 30_000, 61_000, 90_000))
    assert found == Agreement(4, 3, (20_000,), (30_000, 90_000))
    assert not found.is_complete


def test_nothing_agrees_with_nothing() -> None:
    assert agreement([], replayed()).is_complete


START = Action(at_ms=0, kind=ActionKind.START)
GROUP = behaviour(
    process("a", START, Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000), Action(at_ms=60_000, kind=ActionKind.CRASH)),
    process("b", START, Action(at_ms=100_000, kind=ActionKind.POLL_GAP, until_ms=115_000)),
)


def test_a_longer_session_saves_the_silence_and_not_the_crash_which_is_noticed_later() -> None:
    found = compare(GROUP, Settings(session_timeout_ms=15_000))
    assert [(each.process, each.at_ms) for each in found.gone] == [("a", 26_000), ("a", 28_000)]
    assert found.new == ()
    assert found.after.waiting_ms > found.before.waiting_ms
    assert any("wait longer" in each for each in found.warnings)


def test_a_shorter_session_has_new_rebalances() -> None:
    group = behaviour(process("a", START, Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=25_000)), process("b", START))
    found = compare(group, Settings(session_timeout_ms=3_000))
    assert (len(found.gone), [each.at_ms for each in found.new]) == (0, [23_000, 25_000])


def test_nothing_set_changes_nothing() -> None:
    found = compare(GROUP, Settings())
    assert found.before == found.after
    assert (found.gone, found.new, found.warnings) == ((), (), ())


def silences(*lengths_ms: int) -> tuple[Action, ...]:
    return tuple(Action(at_ms=30_000 * at, kind=ActionKind.SILENCE, until_ms=30_000 * at + each) for at, each in enumerate(lengths_ms, 1))


def test_the_smallest_session_that_is_enough() -> None:
    silent = replace(process("a", START, *silences(8_000, 14_000, 22_000)), rebalance_timeout_ms=60_000)
    result = search(behaviour(silent, process("b", START), ended_ms=3_600_000), at_most=2)
    assert [option.settings for option in result.front] == [
        Settings(),
        Settings(session_timeout_ms=11_000),
        Settings(session_timeout_ms=18_000),
    ]
    assert [option.outcome.unplanned for option in result.front] == [6, 4, 2]
    assert result.best is result.front[-1]


def test_a_silence_that_is_longer_than_the_poll_interval_needs_that_longer_too() -> None:
    group = behaviour(process("a", START, *silences(8_000, 14_000)), process("b", START), ended_ms=3_600_000)
    best = search(group, at_most=0).best
    assert best is not None
    assert best.settings == Settings(session_timeout_ms=18_000, max_poll_interval_ms=18_000)
    only_session = outcome_with(group, Settings(session_timeout_ms=18_000))
    assert [each.cause for each in only_session.rebalances if not each.planned] == [Cause.POLL_TIMEOUT]


def test_one_change_is_tried_before_two() -> None:
    actions = (Action(at_ms=30_000, kind=ActionKind.CLOSE), Action(at_ms=34_000, kind=ActionKind.START))
    gap = Action(at_ms=90_000, kind=ActionKind.POLL_GAP, until_ms=105_000)
    group = behaviour(process("a", START, *actions, gap), process("b", START), ended_ms=3_600_000)
    best = search(group, at_most=0).best
    assert best is not None
    # A static member keeps its partitions through both: it stops sending heartbeats after 10 s and is back within its session.
    assert best.settings == Settings(is_static=True)


def test_a_goal_that_is_met_needs_no_change() -> None:
    result = search(behaviour(process("a", START)), at_most=0)
    assert (result.tried, result.best is result.front[0], result.front[0].settings) == (1, True, Settings())


def test_a_goal_that_cannot_be_met_has_no_best() -> None:
    group = behaviour(process("a", START, Action(at_ms=30_000, kind=ActionKind.CRASH)), process("b", START))
    assert search(group, at_most=0).best is None


@pytest.mark.parametrize(("poll_ms", "poll_values"), [(60_000, 1), (10_000, 2)], ids=["of the session", "of both timeouts"])
def test_many_absences_give_few_candidates(poll_ms: int, poll_values: int) -> None:
    lengths = tuple(range(7_000, 27_000, 1_000))
    silent = replace(process("a", START, *silences(*lengths)), rebalance_timeout_ms=poll_ms)
    group = behaviour(silent, process("b", START), ended_ms=3_600_000)
    assert search(group, at_most=0).tried <= (CANDIDATES_MAX + 1) * poll_values


SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
PREDICTED = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = list(evidence_of_events(replay(PREDICTED).events, clock="c"))


def test_from_evidence_to_what_changes() -> None:
    found = predict("g", EVIDENCE, Settings(session_timeout_ms=9_000))
    assert found.comparison is not None
    assert (found.agreement.is_complete, len(found.comparison.gone), found.comparison.after.unplanned) == (True, 2, 0)


def test_from_evidence_to_settings() -> None:
    found = find_settings("g", EVIDENCE, at_most=0)
    assert found.search is not None
    assert found.search.best is not None
    assert found.search.best.settings == Settings(session_timeout_ms=11_000)


def test_a_client_that_names_neither_group_nor_member_counts() -> None:
    broker, client = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, group=None, now_ms=1_005_000)
    broker.leave("a-id", 1, client_id="a")
    broker.rebalance(2, count=1)
    client.add(Kind.CLIENT_LOST, client_id="a", trigger="POLL_TIMEOUT")
    other = EvidenceLog(group="other")
    other.leave("b-id", 1, client_id="b")
    found = evidence_of_group("g", [*broker.lines, *other.lines, *client.lines])
    assert len(found) == len(broker.lines) + 1
    assert found[-1].kind is Kind.CLIENT_LOST


def events_of(group: GroupBehaviour) -> list[Evidence]:
    return list(evidence_of_events(replay(group).events, clock="c"))


def test_what_is_older_than_the_time_that_is_asked_for_says_with_which_settings_members_were_there() -> None:
    found = predict("g", events_of(GROUP), Settings(session_timeout_ms=15_000), since_ms=62_000)
    assert {each.session_timeout_ms for each in found.behaviour.processes} == {6_000}
    assert not any("assumed" in note for note in found.behaviour.notes)
    assert found.agreement == Agreement(3, 3, (), ())
    assert found.comparison is not None
    assert [(each.at_ms, each.process) for each in found.comparison.before.rebalances] == [(66_000, "a"), (110_000, "b"), (115_000, "b")]
    with pytest.raises(ValueError, match="no rebalance"):
        predict("g", events_of(GROUP), Settings(), since_ms=150_000)


@pytest.mark.parametrize("since_ms", [10_000, 23_000, 27_000, 50_000, 70_000, 105_000, 112_000])
def test_from_any_time_on_a_replay_has_the_rebalances_that_the_whole_one_has(since_ms: int) -> None:
    whole = outcome_with(reconstruct("g", events_of(GROUP)), Settings())
    later = outcome_with(reconstruct("g", events_of(GROUP), since_ms=since_ms), Settings())
    assert [each.at_ms for each in later.rebalances] == [each.at_ms for each in whole.rebalances if each.at_ms >= since_ms]


def test_a_leader_that_joins_again_because_of_a_rebalance_does_not_without_it() -> None:
    group = replace(GROUP, leader_rejoins=(LeaderRejoin(31_000),))
    found = compare(reconstruct("g", events_of(group)), Settings(session_timeout_ms=15_000))
    assert 31_000 in [each.at_ms for each in found.before.rebalances]
    assert not [each for each in found.after.rebalances if 10_000 < each.at_ms < 60_000]
    # Where there are new partitions, it would have joined again all the same.
    group = replace(group, partition_counts=((0, {"t": 6}), (30_500, {"t": 8})))
    found = compare(reconstruct("g", events_of(group)), Settings(session_timeout_ms=15_000))
    assert 31_000 in [each.at_ms for each in found.after.rebalances]
