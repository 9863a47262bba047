from ottla.groups.assignors import Subscriber
from ottla.groups.assignors._claims import claimed_partitions
from ottla.groups.assignors._holdings import NONE, Holdings, as_assignment, kept_holdings
from ottla.protocol.model import TopicPartition

NAMES = [TopicPartition(topic, number) for topic in "tu" for number in range(3)]


def member(name: str, topics: str = "t u", **owned: tuple[int, ...]) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset(topics.split()), owned=owned, generation=1)


def kept(members: list[Subscriber]) -> Holdings:
    return kept_holdings(members, NAMES, claimed_partitions(members))


def test_members_keep_what_they_owned_and_subscribe_to() -> None:
    members = [member("a", t=(0, 7), u=(1,)), member("b", topics="t", t=(1,), u=(2,), gone=(0,))]
    holdings = kept(members)
    assert holdings.owner == [0, 1, NONE, NONE, 0, NONE]
    assert holdings.load == [2, 1]
    assert as_assignment(holdings, members, NAMES) == {"a": {"t": [0], "u": [1]}, "b": {"t": [1]}}


def test_topics_with_the_same_subscribers_are_one_group() -> None:
    holdings = kept([member("a"), member("b"), member("c", topics="u")])
    assert [(group.takers, group.partitions) for group in holdings.groups] == [((0, 1), (0, 1, 2)), ((0, 1, 2), (3, 4, 5))]
    assert holdings.groups_of == [[0, 1], [0, 1], [1]]
    one = kept([member("a"), member("b")])
    assert [group.partitions for group in one.groups] == [(0, 1, 2, 3, 4, 5)]


def test_a_move_takes_what_was_the_takers_then_what_is_new_then_the_highest_that_is_kept() -> None:
    members = [member("a", t=(0, 1), u=(0,)), member("b", u=(1,)), member("c")]
    holdings = kept(members)
    holdings.give(5, 0)
    holdings.move_partition(4, 0)
    holdings.move(0, 1, 0)
    assert holdings.owner[4] == 1
    holdings.move(0, 2, 0)
    assert holdings.owner[5] == 2
    holdings.move(0, 2, 0)
    assert holdings.owner[1] == 2
    assert holdings.load == [2, 1, 2]
    holdings.move_partition(1, 0)
    assert (holdings.owner[1], holdings.load) == (0, [3, 1, 1])


def test_a_member_that_gives_its_last_partition_of_a_group_holds_nothing_of_it() -> None:
    holdings = kept([member("a", t=(0,)), member("b")])
    holdings.move(0, 1, 0)
    assert holdings.held[0] == {}
