"""What a coordinator writes keeps to `max.message.bytes` of `__consumer_offsets`: our broker answers as Apache Kafka does."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import encode_subscription

TOPIC, SET = 2, 0
WAIT_S = 60
LARGE = b"x" * 5_000


def limit_batches(client: RawClient, bytes_max: int) -> None:
    change = {"name": "max.message.bytes", "config_operation": SET, "value": str(bytes_max)}
    resource = {"resource_type": TOPIC, "resource_name": "__consumer_offsets", "configs": [change]}
    answer = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.NONE


@pytest.fixture
def broker(new_broker: Callable[..., Any]) -> Any:
    return new_broker({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"})


@pytest.fixture
def client(broker: Any) -> Iterator[RawClient]:
    client = RawClient(broker.bootstrap_servers)
    create_topic(client, "t", 100)
    wait_until(lambda: client.call(ApiKey.FIND_COORDINATOR, 0, key="g").error_code == ErrorCode.NONE, "a coordinator", seconds=WAIT_S)
    wait_until(lambda: commit(client, "first", 1) == {0}, "a loaded coordinator", seconds=WAIT_S)
    limit_batches(client, 2_000)
    # The brokers take the new limit when their metadata says so.
    wait_until(lambda: commit(client, "probe", 1, "x" * 3_000) != {0}, "the limit", seconds=WAIT_S)
    yield client
    client.close()


def commit(client: RawClient, group: str, count: int, metadata: str = "") -> set[int]:
    """Commits offset 7 for so many partitions; the error codes."""
    partitions = [
        {"partition_index": number, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": metadata}
        for number in range(count)
    ]
    who = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = client.call(ApiKey.OFFSET_COMMIT, 8, **who, topics=[{"name": "t", "partitions": partitions}])
    return {int(each.error_code) for topic in answer.topics for each in topic.partitions}


def committed(client: RawClient, group: str) -> int:
    answer = client.call(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=False)
    return sum(len(topic.partitions) for topic in answer.topics)


def test_a_commit_that_is_too_large_is_refused_as_a_whole(client: RawClient) -> None:
    assert commit(client, "g", 10) == {0}
    assert commit(client, "h", 100) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert commit(client, "h", 1, "x" * 3_000) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert commit(client, "many", 1, "ü" * 900) == {0}
    assert (committed(client, "g"), committed(client, "h")) == (10, 0)
    assert commit(client, "g", 10) == {0}


def test_a_group_whose_record_is_too_large_says_so_and_can_go_on(broker: Any, client: RawClient) -> None:
    member = RawMember(broker.bootstrap_servers, "members")
    assert member.join().error_code == ErrorCode.NONE
    error, _ = member.sync({member.member_id: LARGE})
    assert error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert member.join([("range", encode_subscription(["t"]))]).error_code == ErrorCode.NONE
    assert member.sync({member.member_id: b"small"}) == (0, b"small")
    member.close()
