"""The evidence of one clock as parts of rebalances."""

import pytest

from ottla.history.rounds.splitting import BUMPS_TOGETHER_MS, COLLECTS_MS, SOURCE_RANK, Part, Stage, split
from ottla.history.sources.evidence import CommitSpan, Kind, Source
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog


def kinds(log: EvidenceLog) -> list[list[str]]:
    return [[str(item.kind) for item in part.items] for part in split(log.lines)[0]]


def test_a_rebalance_is_its_members_trigger_join_and_sync() -> None:
    log = EvidenceLog()
    log.join("a", 0)
    log.rebalance(1, count=1)
    log.leave("a", 1)
    log.add(Kind.EMPTIED, generation=2)
    first, second = split(log.lines)[0]
    assert (first.generations, first.stage, second.generations, second.is_emptied) == ([1], Stage.ENDED, [2], True)
    assert kinds(log)[1] == ["member-left", "trigger", "emptied"]


def test_later_triggers_are_coalesced_and_a_trigger_after_the_join_supersedes() -> None:
    log = EvidenceLog()
    log.join("a", 4)
    log.add(Kind.MEMBER_JOINED, 10, member_id="b")
    log.add(Kind.TRIGGER, 10, generation=4, coalesced=True, trigger="LEAVE")
    log.add(Kind.JOIN_COMPLETED, 10, generation=5)
    log.join("c", 5, after_ms=10)
    log.rebalance(6)
    first, second = split(log.lines)[0]
    assert (len(first.items), first.stage, first.generation, second.generation) == (4, Stage.FORMED, 5, 6)


def test_a_member_that_only_came_near_leaves_no_rebalance() -> None:
    log = EvidenceLog()
    log.add(Kind.MEMBER_LEFT, member_id="pending")
    log.join("a", 1, after_ms=COLLECTS_MS + 1)
    log.rebalance(2)
    assert kinds(log) == [["trigger", "join-completed", "sync-completed"]]
    alone = EvidenceLog()
    alone.add(Kind.MEMBER_LEFT, member_id="pending")
    assert split(alone.lines)[0] == []


def test_epochs_without_a_target_in_between_are_one_rebalance() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_JOINED, member_id="a")
    log.add(Kind.JOIN_COMPLETED, generation=2)
    log.add(Kind.MEMBER_JOINED, BUMPS_TOGETHER_MS // 2, member_id="b")
    log.add(Kind.JOIN_COMPLETED, generation=3)
    log.add(Kind.SYNC_COMPLETED, 500, generation=3)
    log.add(Kind.MEMBER_LEFT, 9_000, member_id="a")
    log.add(Kind.JOIN_COMPLETED, generation=4)
    parts = split(log.lines)[0]
    assert [part.generations for part in parts] == [[2, 3], [4]]
    assert [part.stage for part in parts] == [Stage.ENDED, Stage.FORMED]


def test_a_static_return_is_avoided_unless_its_trigger_follows() -> None:
    log = EvidenceLog()
    log.add(Kind.STATIC_REPLACED, generation=3, member_id="b", instance_id="i")
    assert [(part.is_avoided, part.generation) for part in split(log.lines)[0]] == [(True, 3)]
    log.add(Kind.TRIGGER, 5, generation=3, trigger="ASSIGNOR_CHANGE", member_id="b", instance_id="i")
    log.rebalance(4)
    (part,) = split(log.lines)[0]
    assert (part.is_avoided, part.generation, len(part.items)) == (False, 4, 4)


def test_a_static_leave_is_over_when_the_member_is_back() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_LEFT, member_id="a", instance_id="i", trigger="STATIC_REJOIN")
    log.add(Kind.STATIC_REPLACED, generation=3, member_id="b", instance_id="i")
    log.add(Kind.MEMBER_REMOVED, 20_000, member_id="b", instance_id="i", trigger="EXPIRE_HEARTBEAT")
    log.add(Kind.JOIN_COMPLETED, generation=4)
    back, lost = split(log.lines)[0]
    assert (back.is_avoided, [item.member_id for item in back.context]) == (True, ["a"])
    assert lost.context == []


def test_a_static_leave_of_kip_848_starts_nothing() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_LEFT, member_id="a", instance_id="i", trigger="STATIC_REJOIN")
    log.add(Kind.STATIC_REPLACED, 900, member_id="b", instance_id="i")
    (part,) = split(log.lines)[0]
    assert part.is_avoided


@pytest.mark.parametrize(("group_type", "kinds_before"), [("consumer", ["topics-changed"]), ("classic", [])])
def test_new_partitions_begin_a_rebalance_where_the_coordinator_assigns(group_type: str, kinds_before: list[str]) -> None:
    log = EvidenceLog(group_type=group_type)
    log.add(Kind.TOPICS_CHANGED)
    log.add(Kind.JOIN_COMPLETED, 10, generation=5)
    assert kinds(log) == [[*kinds_before, "join-completed"]]


def test_only_the_offsets_topic_a_generation_is_its_stored_assignment() -> None:
    log = EvidenceLog()
    log.add(Kind.SYNC_COMPLETED, generation=7)
    log.add(Kind.SYNC_COMPLETED, 1_000, generation=9, members=())
    log.add(Kind.EMPTIED, 1_000, generation=10)
    assert [part.generation for part in split(log.lines)[0]] == [7, 9, 10]


def test_a_move_interrupts_and_belongs_to_what_follows() -> None:
    log = EvidenceLog()
    log.join("a", 4)
    log.add(Kind.UNLOADED, 10, generation=4)
    log.add(Kind.LOADED, 10, generation=4)
    log.join("a", 4)
    log.rebalance(5)
    first, second = split(log.lines)[0]
    assert (first.is_interrupted, first.generation, second.generation) == (True, 5, 5)
    assert [item.kind for item in second.context] == [Kind.UNLOADED, Kind.LOADED]


def test_commits_are_those_since_the_part_before() -> None:
    partition, log = TopicPartition("t", 0), EvidenceLog()
    log.add(Kind.COMMITS, commits={partition: CommitSpan(1, 2, 10, 20, 2)})
    log.add(Kind.COMMITS, commits={partition: CommitSpan(3, 4, 30, 40, 2)})
    log.add(Kind.SYNC_COMPLETED, generation=1)
    log.add(Kind.COMMITS, commits={partition: CommitSpan(5, 6, 50, 60, 2)})
    (part,), rest = split(log.lines)
    assert part.commits == {partition: CommitSpan(1, 4, 10, 40, 4)}
    assert rest == {partition: CommitSpan(5, 6, 50, 60, 2)}


def test_the_generation_is_the_one_formed_or_the_one_to_be() -> None:
    log = EvidenceLog()
    log.join("a", 4)
    part = Part(clock="c", source=Source.BROKER_LOG, old_generation=4, items=log.lines)
    assert part.generation == 5
    assert part.ended_ms is None
    part.generations.append(6)
    part.stage = Stage.ENDED
    assert (part.generation, part.started_ms, part.ended_ms) == (6, log.now_ms, log.now_ms)
    assert len(part.of_kind(Kind.TRIGGER)) == 1
    assert Part(clock="c", source=Source.ADMIN).generation is None


def test_group_events_are_the_most_informative_source() -> None:
    assert min(SOURCE_RANK, key=SOURCE_RANK.__getitem__) is Source.GROUP_EVENTS
