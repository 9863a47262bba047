"""FindCoordinator: one broker, every group; the offsets topic is made at the first question."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_this_broker(api, version: int) -> None:
    keys = {"coordinator_keys": ["test-group", "other"]} if version >= 4 else {"key": "test-group"}
    answer = api.ask(ApiKey.FIND_COORDINATOR, version, key_type=0, **keys)
    for found in answer.coordinators if version >= 4 else [answer]:
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", 9092)


def test_the_offsets_topic_is_made_when_the_first_group_needs_it(api) -> None:
    assert api.cluster.cluster_metadata.topics == {}
    api.ask(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0)
    assert len(api.cluster.cluster_metadata.topics["__consumer_offsets"].leaders) == 50


@pytest.mark.parametrize(("key_type", "error", "text"), [(2, 42, "share"), (9, 42, "unknown")])
def test_other_coordinators_there_are_not(api, key_type: int, error: int, text: str) -> None:
    answer = api.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["x"], key_type=key_type)
    assert (answer.coordinators[0].error_code, answer.coordinators[0].node_id) == (error, -1)
    assert text in answer.coordinators[0].error_message


@pytest.mark.parametrize("version", [1, 6])
def test_a_transactional_id_has_a_coordinator_whose_topic_is_kafkas(api, version: int) -> None:
    keys = {"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}
    answer = api.ask(ApiKey.FIND_COORDINATOR, version, key_type=1, **keys)
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (0, 1)
    topic = api.cluster.cluster_metadata.topics["__transaction_state"]
    assert len(topic.leaders) == 50
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_test_group_lives_in_partition_12(api) -> None:
    assert api.groups.partition_of("test-group") == 12


def test_the_count_is_the_topics_own_wherever_it_comes_from(api, make_topic) -> None:
    make_topic("__consumer_offsets", 7)
    assert api.groups.partition_of("test-group") == 627841412 % 7
