from dataclasses import replace

from ottla.history.sources.evidence import Cause
from ottla.history.whatif.behaviour import Action, ActionKind, LeaderRejoin
from ottla.history.whatif.outcome import Outcome, causes, outcome
from ottla.history.whatif.replay import replay
from tests.support.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
OTHER = process("z", START)


def of(*actions: Action, protocol: str = "range", instance_id: str | None = None) -> Outcome:
    group = behaviour(process("a", START, *actions, instance_id=instance_id), OTHER, protocol=protocol)
    return outcome(group, replay(group))


def test_a_silence_costs_two_unplanned_rebalances() -> None:
    found = of(Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000))
    assert causes(found.rebalances) == {"EXPIRE_HEARTBEAT": 2, "COLD_START": 1}
    assert (found.planned, found.unplanned, found.generations) == (1, 2, 3)
    assert {each.process for each in found.rebalances[1:]} == {"a"}


def test_a_restart_is_not_planned_and_a_close_for_good_is() -> None:
    close, back = Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=25_000, kind=ActionKind.START)
    assert [each.cause for each in of(close, back).rebalances[1:]] == [Cause.RESTART_DYNAMIC, Cause.RESTART_DYNAMIC]
    assert [each.cause for each in of(close).rebalances[1:]] == [Cause.LEAVE_CLOSE]


def test_rebalances_that_static_members_avoided_are_listed() -> None:
    found = of(Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=23_000, kind=ActionKind.START), instance_id="a")
    assert (len(found.rebalances), found.avoided) == (1, ((23_000, "a"),))


def test_the_second_half_of_a_cooperative_rebalance_belongs_to_the_first() -> None:
    found = of(Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=40_000, kind=ActionKind.START), protocol="cooperative-sticky")
    last = found.rebalances[-1]
    assert (last.cause, last.follow_ups, last.moved) == (Cause.RESTART_DYNAMIC, 1, 3)


def test_every_kind_of_action_has_a_cause() -> None:
    assert of(Action(at_ms=20_000, kind=ActionKind.POLL_GAP, until_ms=40_000)).rebalances[-1].cause is Cause.POLL_TIMEOUT
    assert of(Action(at_ms=20_000, kind=ActionKind.CRASH)).rebalances[-1].cause is Cause.EXPIRE_HEARTBEAT
    assert of(Action(at_ms=20_000, kind=ActionKind.REMOVAL)).rebalances[-1].cause is Cause.ADMIN
    assert of(Action(at_ms=20_000, kind=ActionKind.RESUBSCRIBE)).rebalances[-1].cause is Cause.SUBSCRIPTION


def test_what_the_leader_did_has_the_cause_that_was_recorded() -> None:
    group = behaviour(process("a", START), OTHER)
    group = replace(group, leader_rejoins=(LeaderRejoin(20_000), LeaderRejoin(40_000, Cause.LEADER_REJOIN_SPURIOUS)))
    found = outcome(group, replay(group)).rebalances[1:]
    assert [(each.cause, each.planned, each.process) for each in found] == [
        (Cause.TOPIC_CHANGE, True, ""),
        (Cause.LEADER_REJOIN_SPURIOUS, False, ""),
    ]
