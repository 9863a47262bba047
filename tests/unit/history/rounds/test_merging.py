"""Sources joined into rebalances, and what clients say placed into them."""

from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Round
from ottla.history.sources.evidence import Evidence, Kind, Source
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


def test_generations_that_a_reloaded_coordinator_uses_again_are_merged_with_those_that_were_written() -> None:
    """The broker is killed before generations 3 and 4 are on its disk: the log has them twice, the offsets topic once."""
    log, topic = EvidenceLog(), EvidenceLog(Source.OFFSETS_TOPIC, now_ms=1_700_000)
    for generation in (1, 2, 3, 4):
        log.join("a", generation - 1)
        log.rebalance(generation)
    log.add(Kind.LOADED, 9_000)
    for generation in (3, 4, 5, 6):
        log.join("b", generation - 1)
        log.rebalance(generation)
    ends = [line.at_ms for line in log.lines if line.kind is Kind.SYNC_COMPLETED]
    for generation, at_ms in zip((1, 2, 3, 4, 5, 6), (*ends[:2], *ends[4:]), strict=True):
        topic.add(Kind.SYNC_COMPLETED, at_ms + 700_000 - topic.now_ms, generation=generation, members=(member("a"),))
    merged = [(each.generation, len(each.parts)) for each in merge("g", by_clock([*log.lines, *topic.lines]))]
    assert merged == [(1, 2), (2, 2), (3, 1), (4, 1), (3, 2), (4, 2), (5, 2), (6, 2)]


def test_a_client_joins_the_generation_of_its_own_time() -> None:
    """Its clock is half a minute ahead; generation 2 is used again after a reload."""
    log, worker = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, clock="w1.log")
    for generation in (1, 2, 2, 3):
        if generation == 2:
            log.add(Kind.LOADED, 9_000)
        log.join("a", generation - 1)
        log.rebalance(generation)
    ends = [line.at_ms for line in log.lines if line.kind is Kind.SYNC_COMPLETED]
    for generation, at_ms in zip((1, 2, 3), (ends[0], *ends[2:]), strict=True):
        worker.add(Kind.CLIENT_JOINED, at_ms + 30_000 - worker.now_ms, generation=generation, client_id="w1")
    rounds = rounds_of_group("g", [*log.lines, *worker.lines])
    assert [(each.generation, len(each.client_items)) for each in rounds] == [(1, 1), (2, 0), (2, 1), (3, 1)]


def test_a_generation_that_was_stored_and_is_formed_once_more_is_another_one() -> None:
    log = EvidenceLog()
    log.join("a", 0)
    log.rebalance(1)
    log.add(Kind.LOADED, 9_000)
    log.join("b", 0)
    log.rebalance(1)
    assert [each.generation for each in merge("g", by_clock(log.lines))] == [1, 1]


def test_a_rebalance_long_after_one_that_a_reload_undid_is_another_one() -> None:
    """The coordinator removed all, and gave its groups up before that was written: the members live on."""
    for after_ms, generations in ((2_000, [1, 2]), (40_000, [1, 2, 2])):
        log = EvidenceLog()
        log.join("a", 0)
        log.rebalance(1)
        log.expire("a", 1)
        log.add(Kind.UNLOADED, 100)
        log.add(Kind.LOADED, 900)
        log.expire("a", 1, after_ms=after_ms)
        log.rebalance(2)
        assert [each.generation for each in merge("g", by_clock(log.lines))] == generations


def broker() -> EvidenceLog:
    log = EvidenceLog()
    log.join("m1", 0, client_id="w1")
    log.rebalance(1, count=1)
    log.leave("m1", 1, client_id="w1")
    log.rebalance(2, count=1)
    log.join("m2", 2, client_id="w1")
    log.rebalance(3, count=2)
    return log


def client(now_ms: int = 5) -> EvidenceLog:
    return EvidenceLog(Source.CLIENT_LOG, clock="w1.log", now_ms=now_ms)


def placed(evidence: list[Evidence]) -> dict[int | None, list[Kind]]:
    rounds: list[Round] = rounds_of_group("g", evidence)
    return {each.generation: [item.kind for item in each.client_items] for each in rounds}


def test_lines_between_two_generations_belong_to_the_rebalances_between_them() -> None:
    log = client()
    log.add(Kind.CLIENT_JOINED, generation=1, client_id="w1")
    log.add(Kind.CLIENT_LEAVES, 1, client_id="w1", trigger="POLL_TIMEOUT")
    log.add(Kind.CLIENT_REJOINS, 1, client_id="w1")
    log.add(Kind.CLIENT_JOINED, 1, generation=3, client_id="w1")
    assert placed([*broker().lines, *log.lines]) == {
        1: [Kind.CLIENT_JOINED],
        2: [Kind.CLIENT_LEAVES],
        3: [Kind.CLIENT_REJOINS, Kind.CLIENT_JOINED],
    }


def test_a_log_without_generations_is_placed_by_the_member_that_went() -> None:
    log = client()
    log.add(Kind.CLIENT_LOST, member_id="m1", trigger="POLL_TIMEOUT")
    log.add(Kind.CLIENT_LOST, member_id="m9")
    assert placed([*broker().lines, *log.lines])[2] == [Kind.CLIENT_LOST]


def test_the_last_lines_of_a_log_follow_its_last_generation() -> None:
    log = client()
    log.add(Kind.CLIENT_JOINED, generation=1)
    log.add(Kind.CLIENT_LEAVES, 10)
    assert placed([*broker().lines, *log.lines])[2] == [Kind.CLIENT_LEAVES]


def test_generations_that_only_clients_saw_are_rounds() -> None:
    log = client()
    log.add(Kind.CLIENT_JOINED, generation=7)
    log.add(Kind.CLIENT_LOST, 10, trigger="POLL_TIMEOUT")
    log.add(Kind.CLIENT_JOINED, 10, generation=9)
    assert placed(log.lines) == {7: [Kind.CLIENT_JOINED], 8: [Kind.CLIENT_LOST], 9: [Kind.CLIENT_JOINED]}
    assert list(placed([*broker().lines, *log.lines])) == [1, 2, 3, 7, 9]


def test_a_new_subscription_belongs_to_the_epoch_in_which_no_member_came_or_went() -> None:
    log = EvidenceLog(group_type="consumer")
    for generation in (2, 3, 4):
        log.add(Kind.MEMBER_JOINED, 5_000, member_id=f"m{generation}")
        log.add(Kind.JOIN_COMPLETED, generation=generation)
        log.add(Kind.SYNC_COMPLETED, generation=generation)
    log.add(Kind.JOIN_COMPLETED, 5_000, generation=5)
    log.add(Kind.SYNC_COMPLETED, generation=5)
    behind = client()
    behind.add(Kind.CLIENT_JOINED, generation=3, client_id="w1")
    behind.add(Kind.CLIENT_REJOINS, 1, generation=3, client_id="w1", trigger="SUBSCRIPTION")
    behind.add(Kind.CLIENT_JOINED, 1, generation=4, client_id="w1")
    assert placed([*log.lines, *behind.lines]) == {2: [], 3: [Kind.CLIENT_JOINED], 4: [Kind.CLIENT_JOINED], 5: [Kind.CLIENT_REJOINS]}


def test_times_are_those_of_the_most_informative_source() -> None:
    log, topic = EvidenceLog(now_ms=5_000), EvidenceLog(Source.OFFSETS_TOPIC, now_ms=99)
    log.join("a", 0, after_ms=0)
    log.rebalance(1)
    topic.add(Kind.SYNC_COMPLETED, generation=1)
    (each,) = merge("g", by_clock([*topic.lines, *log.lines]))
    assert (each.clock, each.started_ms, each.ended_ms) == ("broker-log", 5_000, 5_120)
    assert [item.source for item in each.of_kind(Kind.SYNC_COMPLETED)] == [Source.BROKER_LOG, Source.OFFSETS_TOPIC]
    assert not each.is_consumer_type


def test_a_round_that_only_clients_saw_has_their_times() -> None:
    log = EvidenceLog(Source.CLIENT_LOG, now_ms=10)
    log.add(Kind.CLIENT_REJOINS)
    log.add(Kind.CLIENT_JOINED, 30, generation=3)
    each = Round(group="g", generation=3, parts=[], client_items=log.lines)
    assert (each.main, each.started_ms, each.ended_ms, each.clock) == (None, 10, 40, "client-log")


def test_what_came_before_a_line_is_counted_on_its_own_clock() -> None:
    log = EvidenceLog()
    log.leave("a", 3)
    log.rebalance(4)
    (each,) = merge("g", by_clock(log.lines))
    assert [each.items_before(item) for item in each.items] == [0, 1, 2, 3]


def test_returns_of_one_member_after_one_generation_are_joined_in_the_order_of_their_times() -> None:
    log, topic = EvidenceLog(), EvidenceLog(Source.OFFSETS_TOPIC)
    log.join("a", 0)
    log.rebalance(1)
    for each in (log, topic):
        for at, after_ms in enumerate((5_000, 40_000)):
            each.add(Kind.STATIC_REPLACED, after_ms, generation=1, member_id=f"b{at}", instance_id="i")
    _, *avoided = merge("g", by_clock([*log.lines, *topic.lines]))
    assert [[item.member_id for item in each.items] for each in avoided] == [["b0", "b0"], ["b1", "b1"]]


def test_a_kip_848_group_that_another_source_shows_empty_was_empty() -> None:
    log, topic = EvidenceLog(group_type="consumer"), EvidenceLog(Source.OFFSETS_TOPIC, group_type="consumer")
    for each in (log, topic):
        for generation, name in enumerate("ab", 7):
            each.add(Kind.MEMBER_REMOVED if each is log else Kind.MEMBER_LEFT, 2, member_id=name, generation=generation)
            each.add(Kind.JOIN_COMPLETED if each is log or generation < 8 else Kind.EMPTIED, generation=generation)
        each.add(Kind.MEMBER_JOINED, 500, member_id="a")
        each.add(Kind.JOIN_COMPLETED, generation=9)
        each.add(Kind.SYNC_COMPLETED, 500, generation=9)
    lost, back = merge("g", by_clock([*log.lines, *topic.lines]))
    assert [(each.generation, len(each.parts)) for each in (lost, back)] == [(8, 2), (9, 2)]
