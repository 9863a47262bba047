"""The uniform assignor: even, sticky, and as Apache Kafka's where its order does not depend on hashes."""

from random import Random

import pytest

from ottla.groups.assignors import Subscriber, assignors, coordinator_assignors

UNIFORM = coordinator_assignors()["uniform"]


def member(member_id: str, *topics: str, **owned: tuple[int, ...]) -> Subscriber:
    return Subscriber(member_id=member_id, topics=frozenset(topics), owned=owned)


def test_it_is_the_coordinators_default_and_no_leaders() -> None:
    assert list(coordinator_assignors()) == ["uniform", "range"]
    assert "uniform" not in assignors()
    with pytest.raises(ValueError, match="no assignor of consumer groups"):
        coordinator_assignors(("sticky",))


def test_the_first_assignment_of_equal_subscriptions() -> None:
    members = [member("a", "t", "u"), member("b", "t", "u")]
    assert UNIFORM.assign(members, {"t": 3, "u": 2}) == {"a": {"t": [0, 1]}, "b": {"t": [2], "u": [0, 1]}}


def test_members_keep_what_their_quota_holds() -> None:
    members = [member("a", "t", t=(0, 1, 2, 3)), member("b", "t"), member("c", "t", t=(4, 5))]
    assert UNIFORM.assign(members, {"t": 7}) == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 6]}, "c": {"t": [4, 5]}}


@pytest.mark.parametrize("seed", range(30))
def test_counts_are_even_and_nothing_is_lost(seed: int) -> None:
    rng = Random(seed)
    topics = {name: rng.randint(1, 6) for name in "tuv"}
    is_same = rng.random() < 0.4
    members = [member(f"m{at}", *("tuv" if is_same else rng.sample("tuv", rng.randint(1, 3)))) for at in range(rng.randint(1, 5))]
    for _ in range(3):
        made = UNIFORM.assign(members, topics)
        given = [(topic, number) for of in made.values() for topic, numbers in of.items() for number in numbers]
        wanted = [(topic, number) for topic, count in topics.items() for number in range(count) if any(topic in m.topics for m in members)]
        assert sorted(given) == sorted(wanted)
        assert all(topic in each.topics for each in members for topic in made[each.member_id])
        loads = {each.member_id: sum(map(len, made[each.member_id].values())) for each in members}
        for giver in members:
            for taker in members:
                if any(topic in taker.topics for topic in made[giver.member_id]):
                    assert loads[giver.member_id] - loads[taker.member_id] <= 1
        owned = [member(each.member_id, *each.topics, **{t: tuple(n) for t, n in made[each.member_id].items()}) for each in members]
        assert UNIFORM.assign(owned, topics) == made, "nothing moves without a reason"
        topics = {name: rng.randint(1, 6) for name in "tuv"}
        members = owned[1:] or owned
