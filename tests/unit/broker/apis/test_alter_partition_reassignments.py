"""AlterPartitionReassignments: other replicas, at once; groups stay where their coordinator is."""

from typing import Any

import pytest

from ottla.broker.cluster.leadership import PIECE
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def three(make_api):
    """Three brokers, and a topic `t` of two partitions on brokers 1 and 2."""
    api = make_api({"offsets.topic.num.partitions": "1"}, brokers=3)
    api.cluster.topics.create(NewTopic(name="t", assignment={0: (1, 2), 1: (2, 1)}))
    return api


def reassign(api, *topics: tuple[str, list[tuple[int, list[int] | None]]], version: int = 1, may_change_count: bool = True) -> list[Any]:
    asked = [
        {"name": name, "partitions": [{"partition_index": number, "replicas": replicas} for number, replicas in partitions]}
        for name, partitions in topics
    ]
    answer = api.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=asked, timeout=1000, allow_replication_factor_change=may_change_count
    )
    assert answer.error_code == ErrorCode.NONE
    if version:
        assert answer.allow_replication_factor_change is may_change_count
    return [(each.name, [(part.partition_index, int(part.error_code)) for part in each.partitions]) for each in answer.responses]


def replicas(api, name: str = "t") -> list[tuple[int, ...]]:
    return [home.replicas for home in api.cluster.cluster_metadata.topics[name].replica_assignments]


@pytest.mark.parametrize("version", [0, 1])
def test_partitions_have_other_replicas_at_once(three, version: int) -> None:
    asked = [("t", [(0, [3]), (1, [2, 3, 1])]), ("t", [(0, [1, 3])]), ("gone", [(0, [1])])]
    assert reassign(three, *asked, version=version) == [("t", [(0, 0), (1, 0)]), ("t", [(0, 0)]), ("gone", [(0, 3)])]
    assert replicas(three) == [(1, 3), (2, 3, 1)]
    assert three.cluster.cluster_metadata.topics["t"].leaders == [3, 2], "each decision reads what the one before has changed"
    assert three.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=1000).topics == ()


def test_refusals_change_nothing(three) -> None:
    asked = ("t", [(0, [9]), (0, []), (0, None), (9, [1])])
    assert reassign(three, asked) == [("t", [(0, 39), (0, 39), (0, 85), (9, 3)])]
    assert reassign(three, ("t", [(0, [1]), (1, [1, 2])]), may_change_count=False) == [("t", [(0, 38), (1, 0)])]
    assert replicas(three) == [(1, 2), (1, 2)]


def test_more_partitions_than_one_append_changes(three) -> None:
    count = PIECE + 2
    three.cluster.topics.create(NewTopic(name="many", assignment=dict.fromkeys(range(count), (1,))))
    assert reassign(three, ("many", [(number, [2]) for number in range(count)])) == [("many", [(each, 0) for each in range(count)])]
    assert replicas(three, "many") == [(2,)] * count


def test_a_coordinator_stays_while_its_broker_leads(three) -> None:
    async def coordinator() -> int:
        return three.cluster.leadership.coordinator("g").broker_id

    def coordinators() -> list[int]:
        return [broker for broker, each in three.cluster.coordinators.by_broker.items() if list(each.all())]

    assert three.runner.run(coordinator()) == 1
    assert replicas(three, "__consumer_offsets") == [(1, 2, 3)]
    running = list(three.cluster.coordinators.by_broker[1].all())
    reassign(three, ("__consumer_offsets", [(0, [3, 2, 1])]))
    assert list(three.cluster.coordinators.by_broker[1].all()) == running, "the leader is the same, and so is the coordinator"
    reassign(three, ("__consumer_offsets", [(0, [3, 2])]))
    three.settle()
    assert coordinators() == [3]
