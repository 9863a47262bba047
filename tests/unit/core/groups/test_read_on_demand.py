"""Long answers to readers: they compare as tuples, and are made item by item while they are encoded."""

from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.read_on_demand import FetchedOffsets, ListedGroups
from ottla.core.groups.records import NO_TOPIC_ID, OffsetValue

ID, OTHER_ID = b"i" * 16, b"o" * 16


def value(offset: int, topic_id: bytes = NO_TOPIC_ID) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=3, metadata="m", commit_timestamp_ms=1, expire_timestamp_ms=None, topic_id=topic_id)


def test_offsets_are_those_of_their_partitions() -> None:
    fetched = FetchedOffsets((4, 2), [value(7), None], NO_TOPIC_ID)
    assert len(fetched) == 2
    assert [(each.partition, each.offset, each.leader_epoch, each.metadata) for each in fetched] == [(4, 7, 3, "m"), (2, -1, -1, "")]
    assert fetched == tuple(fetched)


def test_offsets_of_an_earlier_topic_of_the_name_are_none() -> None:
    values = [value(1, ID), value(2, OTHER_ID), value(3)]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, ID)] == [1, -1, 3]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, NO_TOPIC_ID)] == [1, 2, 3]


def test_groups_are_listed_by_state() -> None:
    groups = [ClassicGroup(name, now_ms=0) for name in ("a", "b")]
    assert [each.group_id for each in ListedGroups(groups, frozenset())] == ["a", "b"]
    assert [(each.state, each.group_type) for each in ListedGroups(groups, frozenset({"empty"}))] == [("Empty", "classic")] * 2
    assert len(ListedGroups(groups, frozenset({"stable"}))) == 0


def test_a_group_is_looked_at_when_its_line_is_made() -> None:
    looked = 0

    class Group(ClassicGroup):
        def __getattribute__(self, name: str) -> object:
            nonlocal looked
            looked += name == "group_id"
            return super().__getattribute__(name)

    lines = iter(ListedGroups([Group(name, now_ms=0) for name in "abc"], frozenset()))
    before = looked
    next(lines)
    assert looked == before + 1
