from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.whatif.behaviour import Action, ActionKind, LeaderRejoin, Reaction
from ottla.history.whatif.replay import Origin, replay
from ottla.history.whatif.settings import Settings, apply_settings
from tests.support.kit.group_behaviours import behaviour, process, random_behaviour

SEEDS = st.integers(0, 10_000)
START = Action(at_ms=0, kind=ActionKind.START)


def count(seed: int, trigger: str, settings: Settings) -> int:
    events = replay(apply_settings(random_behaviour(seed), settings)).events
    return sum(event.trigger == trigger for event in events)


@given(seed=SEEDS, protocol=st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
def test_equal_behaviour_gives_equal_events_and_ends_stable(seed: int, protocol: str) -> None:
    first = replay(random_behaviour(seed, protocol=protocol))
    assert replay(random_behaviour(seed, protocol=protocol)) == first
    last = [event for event in first.events if event.kind != "static_replaced"][-1]
    assert last.state_to in ("Stable", "Empty")
    owned = [(topic, number) for member in last.members for topic, numbers in member.assignment.items() for number in numbers]
    assert sorted(owned) == ([("t", number) for number in range(6)] if last.members else [])


@given(seed=SEEDS, shorter=st.integers(6, 30), longer=st.integers(0, 30), is_static=st.sampled_from([None, True, False]))
def test_a_longer_session_never_expires_more_often(seed: int, shorter: int, longer: int, is_static: bool | None) -> None:
    sessions = [Settings(session_timeout_ms=seconds * 1_000, is_static=is_static) for seconds in (shorter, shorter + longer)]
    before, after = (count(seed, "EXPIRE_HEARTBEAT", each) for each in sessions)
    assert after <= before


@given(seed=SEEDS, shorter=st.integers(5, 30), longer=st.integers(0, 30))
def test_a_longer_poll_interval_never_times_out_more_often(seed: int, shorter: int, longer: int) -> None:
    before, after = (count(seed, "POLL_TIMEOUT", Settings(max_poll_interval_ms=each * 1_000)) for each in (shorter, shorter + longer))
    assert after <= before


LENGTHS_MS = st.sampled_from([0, 1, 1_000, 5_000, 9_000, 10_000, 10_001, 25_000, 70_000])
STEPS = st.lists(st.tuples(st.sampled_from([0, 1, 500, 3_000, 8_000, 20_000]), st.sampled_from(list(ActionKind)), LENGTHS_MS), max_size=7)


@given(steps=st.lists(STEPS, min_size=1, max_size=4), static=st.booleans(), protocol=st.sampled_from(["range", "cooperative-sticky"]))
def test_processes_that_poll_at_the_end_are_members_whatever_they_did_before(
    steps: list[list[tuple[int, ActionKind, int]]], static: bool, protocol: str
) -> None:
    processes = [process(f"c{at}", START, *actions(each), instance_id=f"c{at}" if static else None) for at, each in enumerate(steps)]
    last = [event for event in replay(behaviour(*processes, ended_ms=300_000, protocol=protocol)).events if event.state_to][-1]
    running = [each.name for each in processes if is_running(each.actions)]
    assert sorted(member.client_id for member in last.members) == running
    assert last.state_to == ("Stable" if running else "Empty")


def actions(steps: list[tuple[int, ActionKind, int]]) -> Iterator[Action]:
    """Actions one after the other, which may overlap."""
    at_ms = 1_000
    for wait_ms, kind, length_ms in steps:
        at_ms += wait_ms
        yield Action(at_ms=at_ms, kind=kind, until_ms=at_ms + length_ms)


def is_running(of_process: tuple[Action, ...]) -> bool:
    kinds = [action.kind for action in of_process if action.kind in (ActionKind.START, ActionKind.CLOSE, ActionKind.CRASH)]
    return kinds[-1] is ActionKind.START


def test_triggers_have_the_action_that_they_follow_from() -> None:
    silence = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
    replayed = replay(behaviour(process("a", START, silence), process("b", START)))
    origins = [(event.trigger, replayed.origins[at]) for at, event in enumerate(replayed.events) if event.kind == "trigger"]
    assert origins[-2:] == [("EXPIRE_HEARTBEAT", Origin("a", 1)), ("JOIN_NEW", Origin("a", 1))]


def test_what_came_before_the_evidence_is_replayed_and_not_counted() -> None:
    group = replace(behaviour(process("a", START), process("b", START), partitions={"t": 2}), started_ms=30_000)
    replayed = replay(group)
    assert (replayed.events, replayed.rebalancing_ms) == ((), 0)


def test_the_leader_joins_again_when_partitions_are_added() -> None:
    group = behaviour(process("a", START), process("b", START))
    group = replace(group, partition_counts=((0, {"t": 2}), (50_000, {"t": 4})), leader_rejoins=(LeaderRejoin(51_000),))
    replayed = replay(group)
    assert [event.trigger for event in replayed.events if event.at_ms >= 50_000 and event.trigger] == ["LEADER_REJOIN"]
    assert sum(len(numbers) for member in replayed.events[-1].members for numbers in member.assignment.values()) == 4


def test_rebalances_take_as_long_as_they_did_at_that_time() -> None:
    group = behaviour(process("a", START), process("b", Action(at_ms=20_000, kind=ActionKind.START)))
    group = replace(group, reactions=(Reaction(0, 500, 0), Reaction(19_000, 2_000, 300)))
    ends = [event.at_ms for event in replay(group).events if event.kind == "sync_completed"]
    assert ends[-1] == 20_000 + 2_000 + 300


def test_a_crashed_member_stops_its_partitions_until_its_session_ends() -> None:
    crash = Action(at_ms=20_000, kind=ActionKind.CRASH)
    replayed = replay(behaviour(process("a", START), process("b", START, crash)))
    assert replayed.waiting_ms == 3 * 6_000


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(ValueError, match="'mine' is no assignor"):
        replay(behaviour(protocol="mine"))
