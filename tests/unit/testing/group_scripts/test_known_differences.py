"""Known differences are matched narrowly: the same difference elsewhere is not known."""

from typing import Any

from ottla.testing.group_scripts.known_differences import (
    ARBITRARY_LEADER,
    LEFT_WHILE_SYNCING,
    SUPERSEDED,
    UNREADABLE,
    LastLeader,
    reason_for_missing,
    reason_to_end,
)
from ottla.testing.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, UNREADABLE_SUBSCRIPTION, Step


def step(api: int, **values: Any) -> Step:
    return Step(kind="x", api=api, values=values)


def join(member_id: str = "m", metadata: bytes = b"") -> Step:
    return step(JOIN_GROUP, member_id=member_id, protocol_type="consumer", protocols=[{"name": "range", "metadata": metadata}])


def test_a_parked_request_that_is_superseded() -> None:
    busy = {"error_code": 27}
    assert reason_for_missing({1: join(), 2: join()}, 1, busy, None) == SUPERSEDED
    assert reason_for_missing({1: join(), 2: join("other")}, 1, busy, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 2, busy, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 1, {"error_code": 25}, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 1, None, busy) is None


def test_a_member_that_leaves_while_it_syncs() -> None:
    unknown = {"error_code": 25}
    sync = step(SYNC_GROUP, member_id="static-1-<2>")
    for line in ({"member_id": "static-1-<2>"}, {"member_id": "", "group_instance_id": "static-1"}):
        assert reason_for_missing({1: sync, 2: step(LEAVE_GROUP, members=[line])}, 1, unknown, None) == LEFT_WHILE_SYNCING
    for line in ({"member_id": "other"}, {"member_id": "", "group_instance_id": "static-10"}):
        assert reason_for_missing({1: sync, 2: step(LEAVE_GROUP, members=[line])}, 1, unknown, None) is None
    assert reason_for_missing({1: step(HEARTBEAT, member_id="m")}, 1, unknown, None) is None


def test_what_ends_a_script() -> None:
    ours, theirs = ({"error_code": 0, "generation_id": 4, "leader": leader} for leader in "ab")
    gone, members = LastLeader(generation=3, leader="c"), {"a": None, "b": None}

    def ends(ours: Any, theirs: Any, last_leader: LastLeader = gone, members: Any = members) -> str | None:
        return reason_to_end({1: join()}, {1: theirs}, {1: ours}, last_leader, members)

    assert ends(ours, theirs) == ARBITRARY_LEADER
    assert ends(ours, theirs, members=members | {"c": "late and static"}) == ARBITRARY_LEADER
    assert ends(theirs, theirs) is None
    assert ends(ours, theirs, LastLeader(generation=4, leader="c")) is None
    assert ends(ours, theirs, LastLeader(generation=3, leader="b")) is None
    assert ends(ours, theirs, LastLeader()) is None
    assert ends(ours, theirs, members={"b": None}) is None
    assert ends(ours, theirs, members=members | {"c": None}) is None


def test_what_a_rebalance_waits_for() -> None:
    last_leader, members = LastLeader(), {"a": None}
    ours = {"error_code": 0, "generation_id": 1, "leader": "a"}
    failed = {"error_code": -1, "generation_id": -1, "leader": ""}
    assert reason_to_end({1: join(metadata=UNREADABLE_SUBSCRIPTION)}, {1: failed}, {1: ours}, last_leader, members) == UNREADABLE
    assert reason_to_end({1: join()}, {1: failed}, {1: ours}, last_leader, members) is None
    assert reason_to_end({1: join(metadata=UNREADABLE_SUBSCRIPTION)}, {}, {1: ours}, last_leader, members) == UNREADABLE
    assert reason_to_end({1: join()}, {}, {1: ours}, last_leader, members) is None
