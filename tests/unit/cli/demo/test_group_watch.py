"""What the demo believes of its group, event by event."""

from typing import Any

from ottla.cli.demo.group_watch import GroupPicture


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"group": "g", "kind": kind, "generation": 1, "trigger": None, "client_id": None, "members": [], **fields}


def member(client: str, *partitions: int) -> dict[str, Any]:
    return {"client_id": client, "assignment": {"flights": list(partitions)} if partitions else {}}


def synced(*members: dict[str, Any]) -> dict[str, Any]:
    return event("sync_completed", members=list(members))


def picture_of(*events: dict[str, Any]) -> GroupPicture:
    picture = GroupPicture("g")
    for each in events:
        picture.apply(each)
    return picture


BOTH = frozenset({"a", "b"})


def test_settled_means_these_members_and_every_partition() -> None:
    assert picture_of(synced(member("a", 0), member("b", 1))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0), member("b", 1))).is_settled(BOTH, 3)
    assert not picture_of(synced(member("a", 0), member("b"))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0, 1))).is_settled(BOTH, 2)
    assert not picture_of(synced(member("a", 0), member("b", 0))).is_settled(BOTH, 2)


def test_a_trigger_ends_what_was_settled() -> None:
    settled = synced(member("a", 0), member("b", 1))
    for next_event in (event("trigger", trigger="LEAVE", client_id="a"), event("join_completed"), event("emptied")):
        assert not picture_of(settled, next_event).is_settled(BOTH, 2)


def test_other_groups_and_other_kinds_change_nothing() -> None:
    settled = synced(member("a", 0), member("b", 1))
    other = {**event("trigger", trigger="LEAVE", client_id="a"), "group": "other"}
    assert picture_of(settled, other, event("loaded"), event("static_replaced")).is_settled(BOTH, 2)


def test_triggers_are_found_after_a_mark() -> None:
    picture = picture_of(event("trigger", trigger="LEAVE", client_id="a"), event("trigger", trigger="JOIN_NEW", client_id="b"))
    assert picture.has_seen("a", frozenset({"LEAVE"}), since=0)
    assert not picture.has_seen("a", frozenset({"LEAVE"}), since=1)
    assert not picture.has_seen("b", frozenset({"LEAVE"}), since=0)


def test_a_picture_can_be_told() -> None:
    text = str(picture_of(synced(member("a", 0, 1)), event("trigger", trigger="LEAVE", client_id="a")))
    assert "rebalancing" in text
    assert "LEAVE by a" in text
    assert "a: 2" in str(picture_of(synced(member("a", 0, 1))))
