from dataclasses import replace

import pytest

from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.diagnosis.evidence.model import Evidence, Kind, Source
from ottla.core.diagnosis.rounds.assembly import rounds_of_group
from ottla.core.diagnosis.rounds.round import Round
from ottla.core.whatif.behaviour import Action, ActionKind, GroupBehaviour, LeaderRejoin, Reaction
from ottla.core.whatif.replay import replay
from ottla.core.whatif.timelines import initial_delay_ms, partition_timeline, reactions
from ottla.testing.kit.evidence import EvidenceLog, member
from ottla.testing.kit.group_behaviours import behaviour, process


def rounds(group: GroupBehaviour) -> list[Round]:
    found: list[Evidence] = [item for event in replay(group).events if (item := evidence_of_event(event, clock="c")) is not None]
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
