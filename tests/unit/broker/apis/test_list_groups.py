"""ListGroups: every group, by state and type where the version knows them."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists(api, member, make_topic, commit, version: int) -> None:
    make_topic("t")
    commit("standalone", "t", 1)
    member("g").join()
    groups = api.ask(ApiKey.LIST_GROUPS, version, states_filter=[], types_filter=[]).groups
    assert {group.group_id: group.protocol_type for group in groups} == {"g": "consumer", "standalone": ""}
    if version >= 4:
        assert {group.group_id: group.group_state for group in groups} == {"g": "CompletingRebalance", "standalone": "Empty"}
    if version >= 5:
        assert {group.group_type for group in groups} == {"classic"}


@pytest.mark.conformance("ConsumerGroupTest.testIsInStatesCaseInsensitive", "ConsumerGroupTest.testGroupTypeFromString")
def test_filters(api, member, make_topic, commit) -> None:
    make_topic("t")
    commit("standalone", "t", 1)
    member("g").join()

    def listed(states, types) -> list[str]:
        return [group.group_id for group in api.ask(ApiKey.LIST_GROUPS, 5, states_filter=states, types_filter=types).groups]

    assert listed(["empty"], []) == ["standalone"]
    assert listed(["EMPTY", "completingrebalance"], ["Classic"]) in (["standalone", "g"], ["g", "standalone"])
    assert listed([], ["consumer"]) == listed([], ["invalid"]) == []


def test_no_groups_before_the_first(api) -> None:
    assert api.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups == ()
    assert api.cluster.cluster_metadata.topics == {}
