"""Commits, fetches and deletions of offsets, with and without a member."""

from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.offset_moves import commit_right, commit_unusual, commit_wrong, fetch, offset_delete


def test_kinds(kinds_of: Any) -> None:
    found = kinds_of([commit_right, commit_wrong, commit_unusual, fetch, offset_delete])
    assert {
        "commit",
        "commit-unknown",
        "commit-simple",
        "commit-gone-topic",
        "fetch",
        "fetch-all",
        "fetch-many",
        "offset-delete",
    } <= found.keys(), sorted(found)
    assert {step.api for step in found.values()} == {ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE}
