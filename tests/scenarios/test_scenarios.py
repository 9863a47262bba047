"""Every scenario file tells what happens now. `make scenarios` rewrites them; the difference is then read by a person."""

from pathlib import Path

import pytest

from ottla.core.groups.states import GroupState
from ottla.testing import scenarios

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
S3_ROWS = {
    "s3_1_group_id_invalid": "INVALID_GROUP_ID",
    "s3_1_loading": "REBALANCE_IN_PROGRESS",
    "s3_1_not_coordinator": "NOT_COORDINATOR",
    "s3_2_group_unknown": "UNKNOWN_MEMBER_ID",
    "s3_2_dead": "COORDINATOR_NOT_AVAILABLE",
    "s3_2_static_member_fenced": "FENCED_INSTANCE_ID",
    "s3_2_member_unknown": "UNKNOWN_MEMBER_ID",
    "s3_2_generation_differs": "ILLEGAL_GENERATION",
    "s3_2_protocol_differs": "INCONSISTENT_GROUP_PROTOCOL",
    "s3_3_empty": "UNKNOWN_MEMBER_ID",
    "s3_3_preparing_rebalance": "REBALANCE_IN_PROGRESS",
    "s3_3_stable": "NONE",
    "s3_4_parked_until_the_leader": "NONE",
    "s3_4_member_left_out": "NONE",
    "s3_4_store_fails": "COORDINATOR_NOT_AVAILABLE",
    "s3_connect": "NONE",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_the_file_tells_what_happens(path: Path) -> None:
    scenarios.check(path)


@pytest.mark.parametrize("state", GroupState, ids=lambda state: state.value)
def test_s1_5_every_request_is_answered_in_every_state(state: GroupState) -> None:
    folder = HERE / "groups" / "s1_5_states" / state.name.lower()
    assert {path.stem for path in folder.glob("*.txt")} == REQUESTS


@pytest.mark.parametrize("name", S3_ROWS)
def test_s3_every_row_has_its_scenario(name: str) -> None:
    text = (HERE / "groups" / "s3_sync_group" / f"{name}.txt").read_text()
    assert f" SyncGroup {S3_ROWS[name]}" in text
