from ottla.core.assignors import Subscriber
from ottla.core.assignors.cooperative_sticky import ASSIGNOR


def member(name: str, *owned: int) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": owned} if owned else {}, generation=1)


def test_partitions_that_move_are_revoked_first_and_assigned_in_the_next_rebalance() -> None:
    first = ASSIGNOR.assign([member("a", 0, 1, 2, 3), member("b")], {"t": 4})
    assert first == {"a": {"t": [0, 1]}, "b": {}}
    assert ASSIGNOR.assign([member("a", 0, 1), member("b")], {"t": 4}) == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_partitions_of_a_member_that_is_gone_are_assigned_at_once() -> None:
    assert ASSIGNOR.assign([member("a", 0), member("c", 2)], {"t": 4}) == {"a": {"t": [0, 1]}, "c": {"t": [2, 3]}}
