from ottla.core.assignors import Subscriber
from ottla.core.assignors.roundrobin import ASSIGNOR


def test_partitions_of_all_topics_go_round() -> None:
    members = [Subscriber(member_id=each, topics=frozenset({"t", "u"})) for each in ("b", "a")]
    assert ASSIGNOR.assign(members, {"t": 3, "u": 3}) == {"a": {"t": [0, 2], "u": [1]}, "b": {"t": [1], "u": [0, 2]}}


def test_members_that_do_not_subscribe_are_passed_over() -> None:
    members = [Subscriber(member_id="a", topics=frozenset({"t"})), Subscriber(member_id="b", topics=frozenset({"t", "u"}))]
    assert ASSIGNOR.assign(members, {"t": 1, "u": 2, "unread": 1}) == {"a": {"t": [0]}, "b": {"u": [0, 1]}}


def test_no_members_get_nothing() -> None:
    assert ASSIGNOR.assign([], {"t": 3}) == {}
