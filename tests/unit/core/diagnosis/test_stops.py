"""S2.7: what one member's leaving costs, by protocol."""

import pytest

from ottla.core.diagnosis.stops import Stops, stops
from ottla.core.model import EventMember, GroupEvent


def plan(protocol: str | None, generation: int, *assignments: list[int], kind: str = "sync_completed") -> GroupEvent:
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
def test_s2_7_one_of_ten_members_leaves(protocol: str | None, stopped: int | None) -> None:
    first, second = stops([plan(protocol, 1, *TEN), plan(protocol, 2, *NINE)])
    assert first == Stops("g", 1, protocol, None if stopped is None else 0, 0)
    assert second == Stops("g", 2, protocol, stopped, 5)


def test_a_cooperative_move_between_two_members_stops_once_and_moves_later() -> None:
    rounds = [[[0, 1], []], [[0], []], [[0], [1]]]
    found = stops([plan("cooperative-sticky", number, *each) for number, each in enumerate(rounds)])
    assert [(each.stopped, each.moved) for each in found] == [(0, 0), (1, 0), (0, 1)]


def test_what_was_loaded_was_owned() -> None:
    (found,) = stops([plan("range", 1, [0, 1], kind="loaded"), plan("range", 2, [0], [1])])
    assert (found.stopped, found.moved) == (2, 1)
