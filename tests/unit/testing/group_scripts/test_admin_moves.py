"""What an administrator asks for."""

from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.admin_moves import delete_groups, delete_topic, describe_groups, find_coordinator, list_groups


def test_kinds(kinds_of: Any) -> None:
    found = kinds_of([describe_groups, list_groups, find_coordinator, delete_groups, delete_topic])
    assert {"describe", "list", "find", "delete-groups", "delete-topic"} <= found.keys(), sorted(found)
    assert {step.api for step in found.values()} == {
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_TOPICS,
    }
