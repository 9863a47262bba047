"""The assignors of the ZooKeeper consumer, with the examples by which they are usually explained."""

import pytest

from ottla.groups.assignors import Subscriber
from ottla.groups.assignors._legacy import LEGACY_ASSIGNORS, deal
from ottla.protocol.model import TopicPartition
from ottla.text import java_hash

RANGE, ROUND_ROBIN = LEGACY_ASSIGNORS["legacy-range"], LEGACY_ASSIGNORS["legacy-roundrobin"]


def threads(*ids: str, topics: str = "t") -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split())) for each in ids]


@pytest.mark.parametrize(
    ("partitions", "shares"),
    [
        (10, [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (11, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]),
    ],
)
def test_range_over_three_threads(partitions: int, shares: list[list[int]]) -> None:
    assigned = RANGE.assign(threads("C2-1", "C1-0", "C2-0"), {"t": partitions})
    assert assigned == {each: {"t": share} for each, share in zip(("C1-0", "C2-0", "C2-1"), shares, strict=True)}


def test_range_gives_the_first_thread_one_more_of_each_topic() -> None:
    assigned = RANGE.assign(threads("C1-0", "C2-0", "C2-1", topics="t u"), {"t": 10, "u": 10})
    assert assigned["C1-0"] == {"t": [0, 1, 2, 3], "u": [0, 1, 2, 3]}
    assert [sum(map(len, of.values())) for of in assigned.values()] == [8, 6, 6]


def test_range_of_five_partitions_over_four_threads() -> None:
    assigned = RANGE.assign(threads("C1-0", "C1-1", "C2-0", "C2-1"), {"t": 5})
    assert assigned == {"C1-0": {"t": [0, 1]}, "C1-1": {"t": [2]}, "C2-0": {"t": [3]}, "C2-1": {"t": [4]}}


def test_threads_are_ordered_as_text() -> None:
    assert list(RANGE.assign(threads("c-2", "c-10"), {"t": 1}).items())[1] == ("c-10", {"t": [0]})


def test_round_robin_deals_in_the_order_of_the_hashes() -> None:
    order = [TopicPartition("t", number) for number in (5, 3, 0, 8, 2, 1, 4, 7, 6, 9)]
    assigned = deal(["C1-0", "C1-1", "C2-0", "C2-1"], order)
    assert assigned == {"C1-0": {"t": [2, 5, 6]}, "C1-1": {"t": [1, 3, 9]}, "C2-0": {"t": [0, 4]}, "C2-1": {"t": [7, 8]}}


def test_round_robin_hashes_the_text_of_topic_and_partition() -> None:
    assert java_hash("[topic,10]") < java_hash("[topic,0]") < java_hash("[topic,1]")
    assigned = ROUND_ROBIN.assign(threads("a-0", "b-0", topics="topic"), {"topic": 11, "other": 4})
    assert 10 in assigned["a-0"]["topic"]
    assert assigned["b-0"]["topic"][0] == 0
    assert sorted(assigned["a-0"]["topic"] + assigned["b-0"]["topic"]) == list(range(11))


def test_round_robin_refuses_unequal_subscriptions() -> None:
    with pytest.raises(ValueError, match="the same topics"):
        ROUND_ROBIN.assign([*threads("a-0"), *threads("b-0", topics="t u")], {"t": 1, "u": 1})


def test_no_threads_get_nothing() -> None:
    assert ROUND_ROBIN.assign([], {"t": 3}) == RANGE.assign([], {"t": 3}) == {}
