"""Every scenario file has the effects of today's code. `make scenarios` rewrites them; read the diff."""

from pathlib import Path

import pytest

from ottla.groups.classic.states import GroupState
from trials.scenarios import scenarios

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.txt"))
REQUESTS = {
    "join_group_new",
    "join_group_same",
    "join_group_changed",
    "sync_group",
    "heartbeat",
    "leave_group",
    "offset_commit",
    "offset_commit_anonymous",
    "offset_fetch",
    "offset_delete",
    "describe_groups",
    "list_groups",
    "delete_groups",
}
SYNC_GROUP_ERRORS = {
    "empty_group_id": "INVALID_GROUP_ID",
    "while_loading": "REBALANCE_IN_PROGRESS",
    "not_coordinator": "NOT_COORDINATOR",
    "unknown_group": "UNKNOWN_MEMBER_ID",
    "dead_group": "COORDINATOR_NOT_AVAILABLE",
    "static_member_fenced": "FENCED_INSTANCE_ID",
    "unknown_member": "UNKNOWN_MEMBER_ID",
    "generation_differs": "ILLEGAL_GENERATION",
    "protocol_differs": "INCONSISTENT_GROUP_PROTOCOL",
    "empty_group": "UNKNOWN_MEMBER_ID",
    "preparing_rebalance": "REBALANCE_IN_PROGRESS",
    "stable_group": "NONE",
    "followers_are_parked": "NONE",
    "member_without_assignment": "NONE",
    "append_fails": "COORDINATOR_NOT_AVAILABLE",
    "connect_protocol": "NONE",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_the_file_has_the_effects_of_its_commands(path: Path) -> None:
    scenarios.check(path)


@pytest.mark.parametrize("state", GroupState, ids=lambda state: state.value)
def test_every_request_has_a_scenario_in_every_state(state: GroupState) -> None:
    folder = HERE / "groups" / "requests_by_state" / state.name.lower()
    assert {path.stem for path in folder.glob("*.txt")} == REQUESTS


@pytest.mark.parametrize("name", SYNC_GROUP_ERRORS)
def test_every_answer_of_sync_group_has_a_scenario(name: str) -> None:
    text = (HERE / "groups" / "sync_group" / f"{name}.txt").read_text()
    assert f" SyncGroup {SYNC_GROUP_ERRORS[name]}" in text
