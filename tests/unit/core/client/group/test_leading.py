"""The leader's work: subscriptions in, assignments out."""

from collections.abc import Mapping, Sequence

import pytest

from ottla.core.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber, assignors
from ottla.core.client.group.leading import InvalidAssignment, make_assignments
from ottla.core.client.group.values import JoinedMember
from ottla.core.wire.consumer_protocol import encode_subscription, parse_assignment

RANGE = assignors()["range"]


def member(name: str, *topics: str, owned: Mapping[str, Sequence[int]] | None = None, generation: int = -1) -> JoinedMember:
    return JoinedMember(name, None, encode_subscription(topics, owned=owned or {}, generation=generation))


def test_every_member_gets_its_part() -> None:
    made = make_assignments(RANGE, [member("a", "t"), member("b", "t", "u")], {"t": 3, "u": 1, "other": 9})
    assert {name: parse_assignment(data) for name, data in made.assignments} == {"a": {"t": (0, 1)}, "b": {"t": (2,), "u": (0,)}}
    assert made.topics == {"t", "u"}


@pytest.mark.conformance("ConsumerCoordinatorTest.testSubscriptionChangeWithAuthorizationFailure")
def test_a_topic_without_metadata_is_left_out() -> None:
    made = make_assignments(RANGE, [member("a", "t", "new")], {"t": 1})
    assert parse_assignment(made.assignments[0][1]) == {"t": (0,)}
    assert made.topics == {"t", "new"}, "so that its metadata is asked for"


class Hasty(Assignor):
    """Takes partitions from members that still own them."""

    name = "hasty"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        return {each.member_id: {"t": [0]} if each.member_id == "b" else {} for each in members}


@pytest.mark.conformance("ConsumerCoordinatorTest.testPerformAssignmentShouldValidateCooperativeAssignment")
def test_a_cooperative_assignor_must_wait_for_the_owner() -> None:
    with pytest.raises(InvalidAssignment, match="hasty gave t-0 to b before its owner revoked it"):
        make_assignments(Hasty(), [member("a", "t", owned={"t": [0]}, generation=3), member("b", "t")], {"t": 1})


def test_what_a_member_owned_in_an_old_generation_may_move() -> None:
    members = [member("a", "t", owned={"t": [0]}, generation=2), member("b", "t", generation=3)]
    assert dict(make_assignments(Hasty(), members, {"t": 1}).assignments)["b"]


def test_racks_and_user_data_reach_the_assignor() -> None:
    seen: list[object] = []

    class Watching(Assignor):
        name = "watching"

        def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
            seen.append((members[0].rack, racks))
            return {}

        def with_user_data(self, member: Subscriber, user_data: bytes | None) -> Subscriber:
            seen.append(user_data)
            return member

    data = encode_subscription({"t"}, owned={}, generation=1, rack="r", user_data=b"u")
    made = make_assignments(Watching(), [JoinedMember("a", None, data)], {"t": 1}, {"t": [frozenset({"r"})]})
    assert seen == [b"u", ("r", {"t": [frozenset({"r"})]})]
    assert parse_assignment(made.assignments[0][1]) == {}, "each member has an assignment"
