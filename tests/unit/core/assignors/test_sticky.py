from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.assignors import Assignment, Subscriber
from ottla.core.assignors.sticky import ASSIGNOR, claimed_partitions
from ottla.core.model import TopicPartition

TOPICS = ("t", "u", "v")


def again(members: list[Subscriber], assigned: Assignment) -> list[Subscriber]:
    return [
        Subscriber(member_id=each.member_id, topics=each.topics, owned=assigned.get(each.member_id, {}), generation=1) for each in members
    ]


def owners(assigned: Mapping[str, Mapping[str, list[int]]]) -> dict[TopicPartition, str]:
    pairs = [(TopicPartition(topic, number), name) for name, of in assigned.items() for topic, numbers in of.items() for number in numbers]
    assert len(pairs) == len(dict(pairs)), "a partition has two owners"
    return dict(pairs)


def test_one_of_ten_members_leaves_and_five_partitions_move() -> None:
    members = [Subscriber(member_id=f"m{each}", topics=frozenset({"t"})) for each in range(10)]
    before = ASSIGNOR.assign(members, {"t": 50})
    after = owners(ASSIGNOR.assign(again(members, before)[1:], {"t": 50}))
    moved = [partition for partition, owner in owners(before).items() if after[partition] != owner]
    assert len(moved) == 5


def test_claims_of_a_later_generation_win_and_equal_ones_cancel_each_other() -> None:
    def member(name: str, generation: int, *numbers: int) -> Subscriber:
        return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": numbers}, generation=generation)

    claims = claimed_partitions([member("a", 3, 0, 1), member("b", 2, 0), member("c", 3, 1, 2)])
    assert claims == {TopicPartition("t", 0): "a", TopicPartition("t", 2): "c"}


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int]]:
    subscriptions = draw(st.lists(st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6))
    members = [Subscriber(member_id=f"m{at}", topics=frozenset(topics)) for at, topics in enumerate(subscriptions)]
    return members, draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 8)))


@given(group=groups())
def test_every_subscribed_partition_has_one_owner_that_subscribes(group: tuple[list[Subscriber], dict[str, int]]) -> None:
    members, partitions = group
    found = owners(ASSIGNOR.assign(members, partitions))
    topics = {each.member_id: each.topics for each in members}
    subscribed = {topic for each in members for topic in each.topics}
    assert set(found) == {TopicPartition(topic, each) for topic in subscribed & partitions.keys() for each in range(partitions[topic])}
    assert all(partition.topic in topics[owner] for partition, owner in found.items())


@given(group=groups())
def test_nothing_moves_when_nothing_changed(group: tuple[list[Subscriber], dict[str, int]]) -> None:
    members, partitions = group
    before = ASSIGNOR.assign(members, partitions)
    assert ASSIGNOR.assign(again(members, before), partitions) == before


@given(count=st.integers(2, 8), partitions=st.integers(0, 40), gone=st.sets(st.integers(0, 7), max_size=3), joined=st.integers(0, 3))
def test_equal_subscriptions_stay_even_with_the_fewest_moves(count: int, partitions: int, gone: set[int], joined: int) -> None:
    everyone = [Subscriber(member_id=f"m{each}", topics=frozenset({"t"})) for each in range(count)]
    before = ASSIGNOR.assign(everyone, {"t": partitions})
    stayed = [each for at, each in enumerate(again(everyone, before)) if at not in gone]
    members = stayed + [Subscriber(member_id=f"new{each}", topics=frozenset({"t"})) for each in range(joined)]
    if not members:
        return
    after = ASSIGNOR.assign(members, {"t": partitions})
    counts = {name: sum(map(len, of.values())) for name, of in after.items()}
    assert max(counts.values()) - min(counts.values()) <= 1
    kept = sum(owners(before)[partition] == owner for partition, owner in owners(after).items())
    least, extra = divmod(partitions, len(members))
    held = sorted((sum(map(len, before[each.member_id].values())) for each in stayed), reverse=True)
    most = sum(min(each, least + (at < extra)) for at, each in enumerate(held))
    assert kept == most
