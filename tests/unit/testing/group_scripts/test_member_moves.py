"""SyncGroup, Heartbeat, LeaveGroup: right and wrong ones."""

from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.member_moves import heartbeat_right, heartbeat_wrong, leave_right, leave_several, leave_wrong, sync_wrong


def test_kinds(kinds_of: Any) -> None:
    found = kinds_of([sync_wrong, heartbeat_right, heartbeat_wrong, leave_right, leave_wrong, leave_several])
    assert {
        "sync-type",
        "sync-foreign-member",
        "heartbeat",
        "heartbeat-generation",
        "leave",
        "leave-unknown",
        "leave-many",
        "leave-no-member",
    } <= found.keys(), sorted(found)
    assert {step.api for step in found.values()} == {ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP}
