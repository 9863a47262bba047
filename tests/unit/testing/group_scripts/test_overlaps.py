"""Which steps may be under way at once."""

from collections.abc import Callable
from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.overlaps import may_overlap, may_overlap_on_reference
from ottla.testing.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, ScriptState, Step


def step(api: int, client_id: str = "outsider", **values: Any) -> Step:
    return Step(kind="x", api=api, client_id=client_id, values=values)


def commit(topic: str, client_id: str = "outsider") -> Step:
    return step(OFFSET_COMMIT, client_id, topics=[{"name": topic}])


def test_requests_of_different_clients_about_one_group(stable: Callable[[int], ScriptState]) -> None:
    state = stable(1)
    beat = step(HEARTBEAT, "c0")
    assert may_overlap(state, [beat], commit("flights", "c1"))
    assert may_overlap(state, [commit("flights")], commit("trains")), "others are no members"
    assert not may_overlap(state, [beat], commit("no-such-topic"))
    assert not may_overlap(state, [beat], step(JOIN_GROUP, "c0"))
    for api in (ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS, ApiKey.FIND_COORDINATOR, None):
        other = Step(kind="x", api=api)
        assert not may_overlap(state, [beat], other)
        assert not may_overlap(state, [other], beat)
    assert not may_overlap(state, [beat.armed(400)], step(HEARTBEAT, "c1"))


def test_no_first_rebalance_begins_meanwhile(stable: Callable[[int], ScriptState]) -> None:
    state = stable(1)
    members = [{"member_id": member_id} for member_id in state.description.members]
    join, leave_all, leave_one = step(JOIN_GROUP, "c9"), step(LEAVE_GROUP, members=members), step(LEAVE_GROUP, members=members[:1])
    assert not may_overlap(state, [leave_all], join)
    assert not may_overlap(state, [join], leave_all)
    assert may_overlap(state, [leave_all], step(HEARTBEAT, "c1"))
    assert may_overlap(state, [leave_one], join) is (len(members) > 1)
    state.description = type(state.description)()
    assert not may_overlap(state, [join], step(HEARTBEAT, "c1"))


def test_what_apache_kafka_handles_in_the_order_of_reading() -> None:
    assert may_overlap_on_reference([step(HEARTBEAT), step(JOIN_GROUP), step(LEAVE_GROUP)])
    assert not may_overlap_on_reference([step(HEARTBEAT), step(OFFSET_COMMIT)])
