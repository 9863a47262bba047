"""From evidence to behaviour: timelines, processes and their actions; and that a replay of it has the recorded rebalances."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ottla.groups.events import EventMember
from ottla.history.processes import Identity, Processes
from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.round import Round
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.whatif.behaviour import BEFORE_MS, Action, ActionKind, GroupBehaviour, LeaderRejoin, Reaction
from ottla.history.whatif.prediction import agreement, outcome_with
from ottla.history.whatif.reconstruction import Histories, initial_delay_ms, partition_timeline, reactions, reconstruct
from ottla.history.whatif.replay import replay
from ottla.history.whatif.settings import Settings
from tests.support.kit.evidence import EvidenceLog, member
from tests.support.kit.group_behaviours import behaviour, process, random_behaviour


def rounds(group: GroupBehaviour) -> list[Round]:
    found: list[Evidence] = list(evidence_of_events(replay(group).events, clock="c"))
    return rounds_of_group("g", found)


def start(at_ms: int) -> Action:
    return Action(at_ms=at_ms, kind=ActionKind.START)


def test_partitions_grow_when_an_assignment_shows_more() -> None:
    group = behaviour(process("a", start(0)), process("b", start(20_000)))
    group = replace(group, partition_counts=((0, {"t": 2}), (50_000, {"t": 4})), leader_rejoins=(LeaderRejoin(51_000),))
    assert partition_timeline(rounds(group)) == ((0, {"t": 2}), (51_000, {"t": 4}))


def test_a_cooperative_assignment_takes_no_partition_away() -> None:
    group = behaviour(process("a", start(0)), process("b", start(20_000)), protocol="cooperative-sticky")
    assert partition_timeline(rounds(group)) == ((0, {"t": 6}),)


def test_the_reaction_of_a_group_is_at_most_a_heartbeat_interval() -> None:
    group = behaviour(process("a", start(0)), process("b", start(20_000)))
    group = replace(group, reactions=(Reaction(0, 2_000, 40),))
    assert reactions(rounds(group), 3_000)[-1] == Reaction(20_000, 2_000, 40)
    assert reactions(rounds(group), 500)[-1] == Reaction(20_000, 500, 40)


def test_a_first_rebalance_waits_for_the_delay_so_the_next_one_shows_the_reaction() -> None:
    group = behaviour(process("a", start(0)), process("b", start(20_000)))
    group = replace(group, reactions=(Reaction(0, 700, 40),))
    assert reactions(rounds(group), 3_000)[0] == Reaction(0, 700, 40)
    alone = behaviour(process("a", start(0)))
    assert reactions(rounds(alone), 3_000) == (Reaction(0, 1_500, 10),)


def test_members_that_join_in_one_millisecond_join_one_rebalance() -> None:
    group = replace(behaviour(process("a", start(0)), process("b", start(0))), initial_rebalance_delay_ms=1)
    assert 0 < initial_delay_ms(rounds(group)) < 5


@pytest.mark.parametrize("delay_ms", [0, 1_200, 3_000])
@pytest.mark.parametrize("second_ms", [800, 2_900, 30_000])
def test_the_initial_delay_is_found_again(delay_ms: int, second_ms: int) -> None:
    group = behaviour(process("a", start(0)), process("b", start(second_ms)))
    group = replace(group, initial_rebalance_delay_ms=delay_ms)
    assert initial_delay_ms(rounds(group)) == delay_ms


def test_nothing_recorded_is_no_delay() -> None:
    assert (initial_delay_ms([]), partition_timeline([]), reactions([], 3_000)) == (0, (), ())


def test_a_source_that_shows_only_ends_leaves_it_open() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a", 0), member("b", 1)))
    log.add(Kind.SYNC_COMPLETED, 1_000, generation=2, members=(member("a", 0, 1),))
    log.add(Kind.SYNC_COMPLETED, 60_000, generation=3, members=(member("a", 0), member("b", 1)))
    found = rounds_of_group("g", log.lines)
    assert [each.join_ms for each in reactions(found, 3_000)] == [500, 1_500, 1_500]
    assert initial_delay_ms(found) == 1


def test_a_damaged_record_gives_no_billions_of_partitions() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a", 0, 2**31 - 1, -5),))
    assert partition_timeline(rounds_of_group("g", log.lines)) == ((log.now_ms, {"t": 3}),)


A, AGAIN = Identity("a-1", None, "a", "/h"), Identity("a-2", None, "a", "/h")


def histories_of(*rows: Identity) -> Histories:
    """Of members that joined one after the other and stayed."""
    processes = Processes()
    for at, who in enumerate(rows):
        processes.row_of(who, range(len(processes.rows)), at)
    return Histories(processes)


def test_a_process_that_ended_starts_again_under_its_name() -> None:
    processes = Processes()
    assert [processes.row_of(each, (), 0) for each in (A, AGAIN)] == [0, 0]
    histories = Histories(processes)
    first = histories.start(A, 0)
    first.add(Action(at_ms=5, kind=ActionKind.CLOSE))
    again = histories.start(AGAIN, 9)
    assert again is first is histories.of(Identity("a-2")) is histories.of(A)
    assert [action.at_ms for action in first.actions] == [0, 5, 9]
    assert [histories.has(each) for each in ("a-1", "a-2", "a-3", None)] == [True, True, False, False]


def test_a_second_process_of_the_same_name_is_another_one() -> None:
    members = (A, AGAIN, Identity("b-1", "i", "a", "/h"), Identity("c-1", None, "a#2", "/h"))
    histories = histories_of(*members)
    for at_ms, who in enumerate(members):
        histories.start(who, at_ms)
    assert [name for name, _ in histories.named()] == ["a", "a#2", "i", "a#2#2"]


def test_a_static_member_is_found_by_its_instance_id() -> None:
    static = Identity("x", "i", "a", "/h")
    histories = histories_of(static)
    first = histories.start(static, 0)
    assert histories.of(Identity("y", "i")) is first
    assert histories.start(Identity("z", "i"), 5) is first


def test_members_of_which_nothing_is_known_are_processes_of_their_own() -> None:
    histories = histories_of()
    assert histories.start(Identity(client_id="member 1"), 0) is not histories.start(Identity(client_id="member 2"), 0)


def test_two_are_merged_when_they_are_one() -> None:
    histories = histories_of(A, AGAIN)
    first, second = histories.start(A, 0), histories.start(AGAIN, 9)
    assert first is not second
    histories.merge(first, second)
    histories.merge(first, first)
    assert histories.all == [first]
    assert histories.of(AGAIN) is first
    assert histories.start(AGAIN, 20) is first
    assert [action.at_ms for action in first.actions] == [0, 9, 20]


def test_timeouts_come_from_lists_and_defaults_stand_in() -> None:
    histories = histories_of(A)
    history = histories.start(A, 0)
    defaults = {"session_timeout_ms": 1, "rebalance_timeout_ms": 2, "topics": frozenset("t")}
    assert history.process("a", **defaults).session_timeout_ms == 1  # type: ignore[arg-type]
    histories.learn(
        EventMember(
            member_id="a-1", instance_id=None, client_id="a", client_host="/h", session_timeout_ms=6_000, rebalance_timeout_ms=8_000
        )
    )
    process = history.process("a", **defaults)  # type: ignore[arg-type]
    assert (process.session_timeout_ms, process.rebalance_timeout_ms, process.client_host) == (6_000, 8_000, "/h")


START = Action(at_ms=0, kind=ActionKind.START)


def evidence(group: GroupBehaviour) -> list[Evidence]:
    return list(evidence_of_events(replay(group).events, clock="c"))


def actions(group: GroupBehaviour, name: str) -> list[tuple[str, int, int | None]]:
    (found,) = [each for each in reconstruct("g", evidence(group)).processes if each.name == name]
    return [(action.kind.value, action.at_ms, action.until_ms) for action in found.actions]


@given(seed=st.integers(0, 10_000), protocol=st.sampled_from(["range", "roundrobin", "sticky", "cooperative-sticky"]))
def test_a_replay_of_what_was_reconstructed_has_the_recorded_rebalances(seed: int, protocol: str) -> None:
    found = reconstruct("g", evidence(random_behaviour(seed, protocol=protocol)))
    assert agreement(found.recorded_ms, outcome_with(found, Settings())).is_complete
    assert found.protocol == protocol


@given(seed=st.integers(0, 10_000), session_s=st.integers(7, 40))
def test_and_it_predicts_what_other_settings_would_have_done(seed: int, session_s: int) -> None:
    original, settings = random_behaviour(seed), Settings(session_timeout_ms=session_s * 1_000, max_poll_interval_ms=60_000)
    # A session that ends while the process is coming back may or may not need a second rebalance: it depends on milliseconds.
    # A static member that exceeds its poll interval sends no LeaveGroup: what is seen is a session that expires.
    assume(not any(each.instance_id and action.kind is ActionKind.POLL_GAP for each in original.processes for action in each.actions))
    assume(all(abs(absence_ms - session_s * 1_000) > 3_000 for absence_ms in _absences(original)))
    predicted = outcome_with(reconstruct("g", evidence(original)), settings)
    assert len(predicted.rebalances) == len(outcome_with(original, settings).rebalances)


def _absences(group: GroupBehaviour) -> list[int]:
    pairs = [pair for each in group.processes for pair in pairwise(each.actions)]
    return [action.length_ms for each in group.processes for action in each.actions] + [after.at_ms - at.at_ms for at, after in pairs]


def test_silences_gaps_and_restarts_have_their_times() -> None:
    silence = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=30_000)
    gap = Action(at_ms=60_000, kind=ActionKind.POLL_GAP, until_ms=80_000)
    close, back = Action(at_ms=100_000, kind=ActionKind.CLOSE), Action(at_ms=105_000, kind=ActionKind.START)
    group = behaviour(process("a", START, silence, gap, close, back), process("b", START))
    assert actions(group, "a") == [
        ("start", 0, None),
        ("silence", 20_000, 30_000),
        ("poll gap", 60_000, 80_000),
        ("close", 100_000, None),
        ("start", 105_000, None),
    ]


def test_a_killed_process_that_came_back_at_once_is_one_process() -> None:
    crash, back = Action(at_ms=20_000, kind=ActionKind.CRASH), Action(at_ms=22_000, kind=ActionKind.START)
    group = behaviour(process("a", START, crash, back), process("b", START))
    assert actions(group, "a") == [("start", 0, None), ("crash", 20_000, None), ("start", 22_000, None)]


def test_the_same_from_a_brokers_log() -> None:
    log = EvidenceLog(Source.BROKER_LOG)
    log.join("w-1", 0, client_id="w")
    log.rebalance(1, count=1)
    log.join("v-1", 1, client_id="v")
    log.rebalance(2, count=2)
    joined_ms = log.now_ms + 60_000
    log.join("w-2", 2, after_ms=60_000, client_id="w")
    log.add(Kind.MEMBER_REMOVED, 2_000, member_id="w-1", client_id="w", trigger="EXPIRE_HEARTBEAT")
    log.rebalance(3, count=2)
    found = reconstruct("g", log.lines, Settings(session_timeout_ms=6_000))
    (process_of_w,) = [each for each in found.processes if each.client_id == "w"]
    assert [(action.kind.value, action.at_ms - joined_ms) for action in process_of_w.actions[1:]] == [("crash", -4_000), ("start", 0)]


def test_a_static_restart_is_read_from_the_rebalance_that_it_avoided() -> None:
    close, back = Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=24_000, kind=ActionKind.START)
    group = behaviour(process("a", START, close, back, instance_id="a"), process("b", START))
    assert actions(group, "a") == [("start", 0, None), ("close", 20_000, None), ("start", 24_000, None)]


def test_members_that_were_there_before_start_before_the_evidence() -> None:
    close = Action(at_ms=50_000, kind=ActionKind.CLOSE)
    group = behaviour(process("a", START), process("b", START), process("c", START, close))
    late = [item for item in evidence(group) if item.at_ms >= 50_000]
    found = reconstruct("g", late)
    starts = sorted(each.actions[0].at_ms for each in found.processes)
    assert (starts, found.started_ms) == ([50_000 - BEFORE_MS] * 3, 50_000)
    assert agreement(found.recorded_ms, outcome_with(found, Settings())).is_complete


def test_a_brokers_log_gives_no_timeouts_and_no_assignments() -> None:
    log = EvidenceLog(Source.BROKER_LOG)
    log.expire("w-1", 4)
    log.rebalance(5, count=2)
    log.join("w-2", 5)
    log.rebalance(6, count=3)
    found = reconstruct("g", log.lines, Settings(session_timeout_ms=9_000, heartbeat_interval_ms=3_000))
    assert len(found.processes) == 4
    assert any("9000" in note for note in found.notes)
    assert any("assignments" in note for note in found.notes)
    assert any("range is assumed" in note for note in found.notes)
    assert found.partition_counts == ()


def test_range_stands_in_for_an_assignor_of_ones_own() -> None:
    events = [replace(item, protocol="mine") for item in evidence(behaviour(process("a", START), process("b", START)))]
    found = reconstruct("g", events)
    assert (found.protocol, [note for note in found.notes if "mine is not known" in note] != []) == ("range", True)


def test_rejoins_of_leaders_and_of_others() -> None:
    resubscribe = Action(at_ms=60_000, kind=ActionKind.RESUBSCRIBE)
    group = replace(behaviour(process("a", START), process("b", START, resubscribe)), leader_rejoins=(LeaderRejoin(30_000),))
    found = reconstruct("g", evidence(group))
    assert [rejoin.at_ms for rejoin in found.leader_rejoins] == [30_000]
    assert [action.kind for each in found.processes for action in each.actions][-1] is ActionKind.RESUBSCRIBE


def test_a_group_without_rebalances_is_refused() -> None:
    with pytest.raises(ValueError, match="shows no rebalance"):
        reconstruct("g", [])


def test_a_consumer_group_is_one_in_the_replay() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_JOINED, member_id="m")
    log.add(Kind.JOIN_COMPLETED, 10, generation=2)
    log.add(Kind.SYNC_COMPLETED, 10, generation=2)
    found = reconstruct("g", log.lines)
    assert (found.is_consumer_type, found.protocol, found.heartbeat_interval_ms) == (True, "uniform", 5_000)
