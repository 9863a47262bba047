"""DeleteGroups: only groups without members."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(3))
def test_every_version(api, member, make_topic, commit, committed, version: int) -> None:
    make_topic("t")
    commit("empty", "t", 1)
    member("busy").join()
    results = api.ask(ApiKey.DELETE_GROUPS, version, groups_names=["empty", "busy", "unknown"]).results
    assert [(result.group_id, result.error_code) for result in results] == [("empty", 0), ("busy", 68), ("unknown", 69)]
    assert committed("empty", "t") == -1
