"""Even holdings with few moves."""

from ottla.groups.assignors import Subscriber
from ottla.groups.assignors._balancing import NONE, Holdings, as_assignment, even_out, even_out_by_chains, fill_up, give_back, kept_holdings
from ottla.groups.assignors._owned import claimed_partitions
from ottla.protocol.model import TopicPartition

NAMES = [TopicPartition(topic, number) for topic in "tu" for number in range(3)]


def subscriber(name: str, topics: str = "t u", **owned: tuple[int, ...]) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset(topics.split()), owned=owned, generation=1)


def kept(members: list[Subscriber]) -> Holdings:
    return kept_holdings(members, NAMES, claimed_partitions(members))


def test_members_keep_what_they_owned_and_subscribe_to() -> None:
    members = [subscriber("a", t=(0, 7), u=(1,)), subscriber("b", topics="t", t=(1,), u=(2,), gone=(0,))]
    holdings = kept(members)
    assert holdings.owner == [0, 1, NONE, NONE, 0, NONE]
    assert holdings.load == [2, 1]
    assert as_assignment(holdings, members, NAMES) == {"a": {"t": [0], "u": [1]}, "b": {"t": [1]}}


def test_topics_with_the_same_subscribers_are_one_group() -> None:
    holdings = kept([subscriber("a"), subscriber("b"), subscriber("c", topics="u")])
    assert [(group.takers, group.partitions) for group in holdings.groups] == [((0, 1), (0, 1, 2)), ((0, 1, 2), (3, 4, 5))]
    assert holdings.groups_of == [[0, 1], [0, 1], [1]]
    one = kept([subscriber("a"), subscriber("b")])
    assert [group.partitions for group in one.groups] == [(0, 1, 2, 3, 4, 5)]


def test_a_move_takes_what_was_the_takers_then_what_is_new_then_the_highest_that_is_kept() -> None:
    members = [subscriber("a", t=(0, 1), u=(0,)), subscriber("b", u=(1,)), subscriber("c")]
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
    holdings = kept([subscriber("a", t=(0,)), subscriber("b")])
    holdings.move(0, 1, 0)
    assert holdings.held[0] == {}


def member(name: str, topics: str, **owned: tuple[int, ...]) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset(topics), owned=owned, generation=1)


def holdings(members: list[Subscriber], **counts: int) -> Holdings:
    names = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    return kept_holdings(members, names, claimed_partitions(members))


def test_what_few_can_take_is_given_first() -> None:
    found = holdings([member("a", "tu"), member("b", "t")], t=3, u=1)
    fill_up(found)
    assert found.load == [2, 2]
    assert found.owner[3] == 0


def test_topics_without_subscribers_stay_unassigned() -> None:
    found = holdings([member("a", "u")], t=2, u=1)
    fill_up(found)
    assert found.owner == [NONE, NONE, 0]


def test_partitions_move_from_the_richest_to_the_poorest_while_that_has_two_fewer() -> None:
    found = holdings([member("a", "t", t=(0, 1, 2, 3, 4)), member("b", "t", t=(5, 6, 7)), member("c", "t")], t=8)
    even_out(found)
    assert found.load == [3, 3, 2]
    assert found.owner == [0, 0, 0, 2, 2, 1, 1, 1]


def test_a_chain_evens_out_what_single_moves_cannot() -> None:
    # a cannot give to c, but to b, which can.
    found = holdings([member("a", "t", t=(0, 1, 2)), member("b", "tu", u=(0, 1)), member("c", "u", u=(2,))], t=3, u=3)
    even_out(found)
    assert found.load == [3, 2, 1]
    even_out_by_chains(found)
    assert found.load == [2, 2, 2]
    assert found.owner == [0, 0, 1, 1, 2, 2]


def test_a_chain_goes_where_no_kept_partition_moves() -> None:
    # From a to e by way of b, whose u it owned before, or by way of c, whose v is new to it.
    members = [member("a", "t", t=(0, 1, 2)), member("b", "tu", u=(0, 1)), member("c", "tv"), member("e", "uv")]
    found = holdings(members, t=3, u=2, v=2)
    for partition in (5, 6):
        found.give(partition, 2)
    even_out_by_chains(found)
    assert found.load == [2, 2, 2, 1]
    assert found.owner[3:5] == [1, 1]


def test_a_former_owner_gets_its_partition_back_for_one_that_is_new_to_it() -> None:
    found = holdings([member("a", "tu", t=(0,)), member("b", "tu")], t=1, u=1)
    found.move_partition(0, 1)
    found.give(1, 0)
    give_back(found)
    assert found.owner == [0, 1]


def test_a_former_owner_gets_its_partition_back_where_it_has_one_fewer() -> None:
    found = holdings([member("a", "t", t=(0,)), member("b", "t")], t=1)
    found.move_partition(0, 1)
    give_back(found)
    assert (found.owner, found.load) == ([0], [1, 0])


def test_a_partition_goes_back_where_its_holder_gets_a_new_one_for_it() -> None:
    found = holdings([member("a", "tu", t=(0,), u=(0,)), member("b", "t"), member("c", "tv", v=(0,))], t=2, u=1, v=1)
    found.move_partition(0, 1)
    found.give(1, 2)
    assert found.load == [1, 1, 2]
    give_back(found)
    assert found.owner == [0, 1, 0, 2]
    assert found.load == [2, 1, 1]


def test_a_partition_goes_back_where_its_holder_gets_a_new_one_through_another_member() -> None:
    found = holdings(
        [member("a", "tu", t=(0,), u=(0,)), member("b", "t"), member("c", "vw", v=(0,)), member("d", "tw")], t=2, u=1, v=1, w=1
    )
    found.move_partition(0, 1)
    found.give(1, 3)
    found.give(4, 2)
    assert found.load == [1, 1, 2, 1]
    give_back(found)
    assert found.owner == [0, 1, 0, 2, 3]


def test_nothing_goes_back_where_the_counts_would_be_less_even() -> None:
    found = holdings([member("a", "t", t=(0, 1, 2)), member("b", "t")], t=3)
    even_out(found)
    give_back(found)
    assert found.load == [2, 1]


def test_no_members_and_no_partitions() -> None:
    for found in (holdings([]), holdings([], t=2), holdings([member("a", "t")])):
        fill_up(found)
        even_out(found)
        even_out_by_chains(found)
        give_back(found)
        assert set(found.owner) <= {NONE}
