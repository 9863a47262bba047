"""DeleteGroups: only groups without members."""

import pytest


@pytest.mark.parametrize("version", range(3))
def test_every_version(api, member, make_topic, commit, committed, version: int) -> None:
    make_topic("t")
    commit("empty", "t", 1)
    member("busy").join()
    results = api.ask(42, version, groups_names=["empty", "busy", "nobody"]).results
    assert [(result.group_id, result.error_code) for result in results] == [("empty", 0), ("busy", 68), ("nobody", 69)]
    assert committed("empty", "t") == -1
