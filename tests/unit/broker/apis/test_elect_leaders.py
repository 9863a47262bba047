"""ElectLeaders: back to the first replica, or to any where no broker leads."""

import pytest

from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def three(make_api):
    """Three brokers, a topic `t` whose partitions prefer broker 1, 2 and 3 and are led by broker 1, and a topic `u` of broker 1."""
    api = make_api(brokers=3)
    api.cluster.topics.create(NewTopic(name="t", assignment={0: (1, 2), 1: (2, 1), 2: (3, 1)}))
    api.cluster.topics.create(NewTopic(name="u", assignment={0: (1,)}))
    move(api, 1)
    move(api, 2)
    return api


def move(api, number: int) -> None:
    async def moved() -> None:
        assert api.cluster.leadership.move("t", number, 1) is None

    api.runner.run(moved())


def stop(api, broker: int) -> None:
    async def stopped() -> None:
        api.cluster.leadership.broker_stopped(api.cluster.brokers.nodes[broker])

    api.runner.run(stopped())


def elect(api, asked: list[tuple[str, list[int]]] | None, kind: int = PREFERRED, version: int = 2):
    topics = None if asked is None else [{"topic": name, "partitions": numbers} for name, numbers in asked]
    answer = api.ask(ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=topics, timeout=1000)
    results = [
        (topic.topic, [(each.partition_id, int(each.error_code)) for each in topic.partition_result])
        for topic in answer.replica_election_results
    ]
    return (int(answer.error_code) if version else None), results


def leaders(api) -> list[int]:
    return api.cluster.cluster_metadata.topics["t"].leaders


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_is_elected_once(three, version: int) -> None:
    none = 0 if version else None
    asked = [("t", [1, 0]), ("t", [1])]
    assert elect(three, asked, version=version) == (none, [("t", [(1, 0), (0, 84)]), ("t", [(1, 84)])])
    assert leaders(three) == [1, 2, 1]
    assert three.cluster.cluster_metadata.topics["t"].leader_epochs == [0, 2, 1]


def test_all_partitions_are_elected_and_those_that_need_none_left_out(three) -> None:
    assert elect(three, None) == (0, [("t", [(1, 0), (2, 0)]), ("u", [])])
    assert leaders(three) == [1, 2, 3]


def test_a_preferred_leader_that_is_stopped_cannot_be_elected(three) -> None:
    stop(three, 3)
    assert elect(three, None) == (0, [("t", [(1, 0), (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]), ("u", [])])
    assert leaders(three) == [1, 2, 1]


def test_an_unclean_election_is_for_partitions_without_a_leader(three) -> None:
    stop(three, 1)
    three.on(2)
    asked = [("t", [0]), ("u", [0])]
    expected = [("t", [(0, ErrorCode.ELECTION_NOT_NEEDED)]), ("u", [(0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)])]
    assert elect(three, asked, UNCLEAN) == (0, expected)


def test_what_there_is_not(three) -> None:
    assert elect(three, [("t", [9, -1]), ("gone", [0]), ("gone", [])]) == (0, [("t", [(9, 3), (-1, 3)]), ("gone", [(0, 3)]), ("gone", [])])
    assert elect(three, []) == (0, [])


@pytest.mark.parametrize("kind", [2, -1])
def test_an_unknown_type_of_election(three, kind: int) -> None:
    assert elect(three, [("t", [1])], kind) == (42, [("t", [(1, 42)])])
    assert elect(three, None, kind) == (42, [])
    assert elect(three, [], kind) == (0, [])
    assert leaders(three) == [1, 1, 1]


def test_a_log_that_cannot_be_written_is_the_result_of_what_would_change(three, monkeypatch) -> None:
    def fail(*_given: object, **_named: object) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(PartitionLog, "append_records", fail)
    assert elect(three, [("t", [0, 1])]) == (0, [("t", [(0, 84), (1, ErrorCode.KAFKA_STORAGE_ERROR)])])
    assert leaders(three) == [1, 1, 1]
