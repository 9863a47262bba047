from ottla.history.rounds.merging import by_clock, merge
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog, member


def test_sources_are_joined_by_generation_whatever_their_clocks_say() -> None:
    log, topic = EvidenceLog(), EvidenceLog(Source.OFFSETS_TOPIC, now_ms=77)
    log.join("a", 0)
    log.rebalance(1, count=1)
    log.join("b", 1)
    log.rebalance(2, count=2)
    topic.add(Kind.SYNC_COMPLETED, generation=2, members=(member("a"), member("b")))
    first, second = merge("g", by_clock([*topic.lines, *log.lines]))
    assert [part.source for part in second.parts] == [Source.BROKER_LOG, Source.OFFSETS_TOPIC]
    assert (first.generation, second.generation, second.clock) == (1, 2, "broker-log")


def test_two_coordinators_tell_one_rebalance() -> None:
    old, new = EvidenceLog(clock="broker 1"), EvidenceLog(clock="broker 2")
    old.join("a", 4)
    old.add(Kind.UNLOADED, generation=4)
    new.join("a", 4)
    new.rebalance(5)
    (only,) = merge("g", by_clock([*old.lines, *new.lines]))
    assert (only.generation, only.clock, len(only.parts)) == (5, "broker 2", 2)


def test_generations_that_start_again_are_another_life_of_the_group() -> None:
    log = EvidenceLog()
    for generation in (1, 2, 1, 2):
        log.join("a", generation - 1)
        log.rebalance(generation)
    assert [each.generation for each in merge("g", by_clock(log.lines))] == [1, 2, 1, 2]


def test_a_return_and_the_refusal_of_its_predecessor_are_one_story() -> None:
    log = EvidenceLog()
    log.join("a", 0)
    log.rebalance(1)
    log.add(Kind.STATIC_REPLACED, 5_000, generation=1, member_id="b", instance_id="i")
    log.add(Kind.STATIC_FENCED, 900, generation=1, member_id="b", instance_id="i")
    rebalance, avoided = merge("g", by_clock(log.lines))
    assert (rebalance.is_avoided, avoided.is_avoided) == (False, True)
    assert [item.kind for item in avoided.items] == [Kind.STATIC_REPLACED, Kind.STATIC_FENCED]


def test_a_source_that_begins_in_the_second_life_of_a_group_joins_that_one() -> None:
    topic, log = EvidenceLog(Source.OFFSETS_TOPIC), EvidenceLog(now_ms=50_000_000)
    for generation in (1, 2, 1, 2):
        topic.add(Kind.SYNC_COMPLETED, 16_000_000, generation=generation, members=())
    for generation in (1, 2):
        log.join("a", generation - 1, after_ms=15_000_000)
        log.rebalance(generation)
    sources = [[part.source for part in each.parts] for each in merge("g", by_clock([*topic.lines, *log.lines]))]
    assert sources == [[Source.OFFSETS_TOPIC]] * 2 + [[Source.BROKER_LOG, Source.OFFSETS_TOPIC]] * 2
