from ottla.core.assignors import Subscriber, assignors
from ottla.core.assignors.range import ASSIGNOR


def members(*ids: str, topics: str = "t") -> list[Subscriber]:
    return [Subscriber(member_id=each, topics=frozenset(topics.split())) for each in ids]


def test_the_first_members_get_one_more() -> None:
    assigned = ASSIGNOR.assign(members("C2-1", "C1-0", "C2-0"), {"t": 10})
    assert assigned == {"C1-0": {"t": [0, 1, 2, 3]}, "C2-0": {"t": [4, 5, 6]}, "C2-1": {"t": [7, 8, 9]}}


def test_each_topic_starts_with_the_same_member() -> None:
    assigned = ASSIGNOR.assign(members("a", "b", "c", topics="t u"), {"t": 10, "u": 10})
    assert [sum(map(len, of.values())) for of in assigned.values()] == [8, 6, 6]


def test_members_without_partitions_have_an_entry() -> None:
    assert ASSIGNOR.assign(members("a", "b"), {"t": 1}) == {"a": {"t": [0]}, "b": {}}


def test_static_members_come_first_by_instance_id() -> None:
    static = Subscriber(member_id="z", instance_id="2", topics=frozenset({"t"}))
    assert ASSIGNOR.assign([*members("a"), static], {"t": 1}) == {"a": {}, "z": {"t": [0]}}


def test_topics_without_subscribers_are_left_out() -> None:
    assert ASSIGNOR.assign(members("a"), {"t": 1, "other": 3}) == {"a": {"t": [0]}}


def test_every_assignor_is_found_by_its_kafka_name() -> None:
    assert {name: each.is_cooperative for name, each in assignors().items()} == {
        "range": False,
        "roundrobin": False,
        "sticky": False,
        "cooperative-sticky": True,
    }
