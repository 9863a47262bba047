from typing import Any

from ottla.groups.events import EventMember
from ottla.history.processes import Processes
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.story.story import Presence


def member(name: str) -> EventMember:
    return EventMember(
        member_id=f"{name}-1", instance_id=None, client_id=name, client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=2
    )


def evidence(at_ms: int, name: str, **fields: Any) -> Evidence:
    return Evidence(
        at_ms=at_ms, source=Source.GROUP_EVENTS, clock="b", group="g", member_id=f"{name}-1", client_id=name, client_host="/h", **fields
    )


class World:
    """Presence with the members of a group, named by letters."""

    def __init__(self, *, lists_members: bool = True) -> None:
        self.processes = Processes()
        self.presence = Presence(self.processes, lists_members=lists_members)

    def members(self, at_ms: int, names: str) -> None:
        members = [member(name) for name in names]
        self.presence.set_members(self.processes.rows_of(members, at_ms), [each.member_id for each in members], at_ms)

    @property
    def present(self) -> list[list[tuple[int, int | None]]]:
        return [process.present for process in self.processes.rows]


def test_a_member_is_there_from_its_request_until_it_leaves() -> None:
    world = World()
    world.presence.note(evidence(5, "a", kind=Kind.TRIGGER, candidates=("JOIN_NEW", "COLD_START")))
    world.members(10, "a")
    world.presence.note(evidence(40, "a", kind=Kind.MEMBER_LEFT))
    world.members(50, "b")
    world.presence.end()
    assert world.present == [[(5, 40)], [(50, None)]]


def test_a_silent_member_is_known_to_have_been_silent() -> None:
    world = World()
    world.members(10, "ab")
    world.presence.note(evidence(100, "a", kind=Kind.TRIGGER, trigger="EXPIRE_HEARTBEAT", evidence={"last_heartbeat_age_ms": 60}))
    world.members(120, "b")
    world.presence.note(evidence(130, "b", kind=Kind.TRIGGER, candidates=("LEAVE_CLOSE",), evidence={"last_heartbeat_age_ms": 8}))
    assert world.presence.silent == [(0, 40, 100)]
    assert world.present[0] == [(10, 100)]


def test_without_a_line_of_its_own_a_member_is_gone_with_the_generation_that_lacks_it() -> None:
    world = World()
    world.members(10, "ab")
    world.members(20, "b")
    world.members(30, "ab")
    world.presence.end()
    assert world.present == [[(10, 20), (30, None)], [(10, None)]]


def test_without_lists_members_are_known_by_the_lines_about_them() -> None:
    world = World(lists_members=False)
    for at_ms, name in ((1, "a"), (2, "b"), (3, "a")):
        world.presence.note(evidence(at_ms, name, kind=Kind.MEMBER_JOINED))
    world.presence.note(evidence(9, "a", kind=Kind.MEMBER_REMOVED))
    world.presence.end()
    assert world.present == [[(1, 9)], [(2, None)]]
    assert [process.name for process in world.processes.rows] == ["a", "b"]


def test_lines_about_strangers_change_nothing() -> None:
    world = World()
    world.presence.note(evidence(1, "x", kind=Kind.MEMBER_LEFT))
    world.members(10, "a")
    world.presence.end()
    assert world.present == [[(10, None)]]
