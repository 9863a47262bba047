from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.round import Round
from ottla.history.sources.model import Evidence, Kind, Source
from tests.support.kit.evidence import EvidenceLog


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
