from collections.abc import Mapping, Sequence

from ottla.cli.assign.outcome import REBALANCES_MAX, Move, complete_assignment, outcome, with_ownership
from ottla.cli.assign.state import State
from ottla.core.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber, find_assignor


def member(name: str, *owned: int) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": owned} if owned else {}, generation=1 if owned else -1)


STATE = State((member("a", 0, 1, 2, 3), member("b")), {"t": 4})
BEFORE = {"a": {"t": (0, 1, 2, 3)}}


def test_an_eager_assignor_stops_everything() -> None:
    found = outcome(find_assignor("range"), STATE, BEFORE)
    assert found.assignment == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert found.moves == (Move("t", 2, "a", "b"), Move("t", 3, "a", "b"))
    assert (found.rebalances, found.owned, found.stopped, found.loads) == (1, 4, 4, [2, 2])


def test_a_cooperative_assignor_stops_what_moves_and_needs_another_rebalance() -> None:
    found = outcome(find_assignor("cooperative-sticky"), STATE, BEFORE)
    assert found.assignment == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert (found.rebalances, found.owned, found.stopped) == (2, 4, 2)


def test_partitions_of_a_member_that_left_move_and_those_that_are_gone_do_not() -> None:
    state = State((member("b", 1),), {"t": 2})
    found = outcome(find_assignor("sticky"), state, {"a": {"t": (0,)}, "b": {"t": (1, 5)}})
    assert found.moves == (Move("t", 0, "a", "b"),)
    assert found.owned == 2


def test_members_own_what_an_assignment_gave_them_in_a_later_generation() -> None:
    found = with_ownership([member("a", 0), member("new")], {"a": {"t": [1]}})
    assert [(each.owned, each.generation) for each in found] == [({"t": [1]}, 2), ({}, 2)]


class Restless(Assignor):
    """Gives every partition to another member in each rebalance."""

    name = "restless"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        at = next((number for number, each in enumerate(members) if each.owned), 0)
        return {each.member_id: {"t": [0]} if number != at else {} for number, each in enumerate(members)}


def test_an_assignor_that_goes_on_moving_partitions_is_stopped() -> None:
    assert complete_assignment(Restless(), State((member("a", 0), member("b")), {"t": 1}))[1] == REBALANCES_MAX
