"""What the leaving of one member costs, by protocol."""

import pytest

from ottla.core.diagnosis.rebalance_impact import RebalanceImpact, rebalance_impacts
from ottla.core.model import EventMember, GroupEvent


def assigned(protocol: str | None, generation: int, *assignments: list[int], kind: str = "sync_completed") -> GroupEvent:
    members = tuple(
        EventMember(
            member_id=f"m{number}",
            instance_id=None,
            client_id=f"c{number}",
            client_host="/h",
            session_timeout_ms=0,
            rebalance_timeout_ms=0,
            assignment={"t": partitions} if partitions else {},
        )
        for number, partitions in enumerate(assignments)
    )
    return GroupEvent(at_ms=0, group="g", kind=kind, generation=generation, state_from="", state_to="", protocol=protocol, members=members)


TEN = [list(range(5 * number, 5 * number + 5)) for number in range(10)]
NINE = [[*own, 45 + number] if number < 5 else own for number, own in enumerate(TEN[:9])]


@pytest.mark.parametrize(
    ("protocol", "stopped"), [("range", 50), ("sticky", 50), ("cooperative-sticky", 5), ("our-own", None), (None, None)]
)
def test_one_of_ten_members_leaves(protocol: str | None, stopped: int | None) -> None:
    first, second = rebalance_impacts([assigned(protocol, 1, *TEN), assigned(protocol, 2, *NINE)])
    assert first == RebalanceImpact("g", 1, protocol, None if stopped is None else 0, 0)
    assert second == RebalanceImpact("g", 2, protocol, stopped, 5)


def test_a_cooperative_move_between_two_members_stops_once_and_moves_later() -> None:
    rebalances = [[[0, 1], []], [[0], []], [[0], [1]]]
    found = rebalance_impacts([assigned("cooperative-sticky", number, *each) for number, each in enumerate(rebalances)])
    assert [(each.stopped, each.moved) for each in found] == [(0, 0), (1, 0), (0, 1)]


def test_a_loaded_assignment_has_owners() -> None:
    (found,) = rebalance_impacts([assigned("range", 1, [0, 1], kind="loaded"), assigned("range", 2, [0], [1])])
    assert (found.stopped, found.moved) == (2, 1)
