"""The engine's requests as messages: every supported version is written and its response read."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ottla.client.consumer.requests import encode_request
from ottla.client.engine.values import (
    CoordinatorResponse,
    Endpoint,
    EpochEnd,
    Fetch,
    FetchedOffset,
    FetchResponse,
    LeaderEpoch,
    ListedOffset,
    ListOffsets,
    Metadata,
    OffsetAndMetadata,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetForLeaderEpoch,
)
from ottla.client.errors import UnsupportedBrokerError
from ottla.client.fetch.fetch_sessions import without_session
from ottla.client.fetch.fetch_values import FetchPolicy, PartitionFetch, SessionFields
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    FindCoordinator,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    SyncGroup,
    SyncResponse,
)
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import request_decoder, response_encoder

A = TopicPartition("t", 3)
JOIN = JoinGroup(
    group_id="g",
    member_id="m",
    instance_id="i",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=9_000,
    protocol_type="consumer",
    protocols=(("range", b"meta"),),
    reason="why",
)
SYNC = SyncGroup(
    group_id="g", generation=4, member_id="m", instance_id=None, protocol_type="consumer", protocol_name="range", assignments=(("m", b"x"),)
)
HEARTBEAT = Heartbeat(group_id="g", generation=4, member_id="m", instance_id="i")
LEAVE = LeaveGroup(group_id="g", member_id="m", instance_id=None, reason="why")
COMMIT = OffsetCommit(group_id="g", generation=4, member_id="m", instance_id="i", offsets={A: OffsetAndMetadata(7, 2, "x")})


class AnyBroker:
    """A broker that speaks each API up to a version."""

    def __init__(self, version: int = 99) -> None:
        self._version = version

    def version(self, api_key: int, lowest: int, highest: int) -> int:
        if self._version < lowest:
            raise UnsupportedBrokerError("too old")
        return min(self._version, highest)

    def speaks(self, api_key: int, version: int) -> bool:
        return version <= self._version


def there(request: Any, version: int) -> Any:
    """The request as a broker reads it."""
    encoded = encode_request(request, AnyBroker(version))  # type: ignore[arg-type]
    assert encoded.version == version
    return request_decoder(encoded.api_key, version)(encoded.body, 0)


def back(request: Any, version: int, values: dict[str, Any]) -> Any:
    """The response that the engine gets."""
    encoded = encode_request(request, AnyBroker(version))  # type: ignore[arg-type]
    return encoded.read(memoryview(response_encoder(encoded.api_key, version)({"throttle_time": 0, **values})))


@pytest.mark.parametrize("version", range(5, 10))
def test_join_group(version: int) -> None:
    read = there(JOIN, version)
    assert (read.group_id, read.member_id, read.group_instance_id, read.protocol_type) == ("g", "m", "i", "consumer")
    assert (read.session_timeout.total_seconds(), read.rebalance_timeout.total_seconds()) == (6, 9)
    assert [(each.name, each.metadata) for each in read.protocols] == [("range", b"meta")]
    assert getattr(read, "reason", "why") == "why"
    member = {"member_id": "m", "group_instance_id": None, "metadata": b"s"}
    values = {"error_code": 0, "generation_id": 5, "protocol_type": "consumer", "protocol_name": "range", "leader": "m", "member_id": "m"}
    assert back(JOIN, version, values | {"members": [member], "skip_assignment": False}) == JoinResponse(
        error=ErrorCode.NONE, generation=5, protocol_name="range", leader="m", member_id="m", members=(JoinedMember("m", None, b"s"),)
    )


@pytest.mark.parametrize("version", range(3, 6))
def test_sync_group(version: int) -> None:
    read = there(SYNC, version)
    assert (read.generation_id, read.member_id, [each.assignment for each in read.assignments]) == (4, "m", [b"x"])
    values = {"error_code": 27, "protocol_type": "consumer", "protocol_name": "range", "assignment": b"a"}
    assert back(SYNC, version, values) == SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"a")


@pytest.mark.parametrize("version", [3, 4])
def test_heartbeat(version: int) -> None:
    read = there(HEARTBEAT, version)
    assert (read.group_id, read.generation_id, read.member_id, read.group_instance_id) == ("g", 4, "m", "i")
    assert back(HEARTBEAT, version, {"error_code": 25}) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_leave_group(version: int) -> None:
    (member,) = there(LEAVE, version).members
    assert (member.member_id, getattr(member, "reason", "why")) == ("m", "why")
    assert back(LEAVE, version, {"error_code": 0, "members": []}) is ErrorCode.NONE


def test_consumer_group_heartbeat() -> None:
    topic = "A" * 21 + "Q"
    full = ConsumerGroupHeartbeat(
        group_id="g",
        member_id="m",
        member_epoch=4,
        instance_id="i",
        rack="r",
        rebalance_timeout_ms=9_000,
        topics=("t",),
        regex="^t",
        assignor="range",
        owned={topic: [3, 4]},
    )
    read = there(full, 1)
    assert (read.group_id, read.member_id, read.member_epoch, read.instance_id, read.rack_id) == ("g", "m", 4, "i", "r")
    assert (read.rebalance_timeout.total_seconds(), read.subscribed_topic_names, read.subscribed_topic_regex) == (9, ("t",), "^t")
    assert (read.server_assignor, [(each.topic_id.int, each.partitions) for each in read.topic_partitions]) == ("range", [(1, (3, 4))])
    kept = there(ConsumerGroupHeartbeat(group_id="g", member_id="m", member_epoch=4, instance_id=None), 1)
    assert (kept.rebalance_timeout / timedelta(milliseconds=1), kept.rack_id, kept.topic_partitions) == (-1, None, None)
    assert (kept.subscribed_topic_names, kept.subscribed_topic_regex, kept.server_assignor) == (None, None, None)
    values: dict[str, Any] = {"error_code": 0, "error_message": None, "member_id": "m", "member_epoch": 5}
    values |= {"heartbeat_interval": 5_000, "assignment": None}
    assert back(full, 1, values) == ConsumerGroupHeartbeatResponse(error=ErrorCode.NONE, member_epoch=5, heartbeat_interval_ms=5_000)
    given = values | {"assignment": {"topic_partitions": [{"topic_id": UUID(int=1), "partitions": [0, 2]}]}}
    assert back(full, 1, given).assignment == {topic: (0, 2)}
    assert back(full, 1, values | {"error_code": 25, "error_message": "why"}).message == "why"


@pytest.mark.parametrize("version", [7, 8])
def test_offset_commit(version: int) -> None:
    read = there(COMMIT, version)
    (item,) = read.topics[0].partitions
    assert (read.generation_id_or_member_epoch, read.member_id, read.group_instance_id) == (4, "m", "i")
    assert (item.partition_index, item.committed_offset, item.committed_leader_epoch, item.committed_metadata) == (3, 7, 2, "x")
    values = {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "error_code": 22}]}]}
    assert back(COMMIT, version, values) == {A: ErrorCode.ILLEGAL_GENERATION}
    with_epoch = replace(COMMIT, has_epoch=True)
    assert there(with_epoch, 9).generation_id_or_member_epoch == 4
    assert back(with_epoch, 9, values) == {A: ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.conformance("ConsumerCoordinatorTest.testNoThrowWhenStableFlagIsSupported")
def test_offset_fetch() -> None:
    request = OffsetFetch("g", (A,))
    read = there(request, 8)
    assert read.require_stable
    assert [(each.name, list(each.partition_indexes)) for each in read.groups[0].topics] == [("t", [3])]
    item = {"partition_index": 3, "committed_offset": 7, "committed_leader_epoch": 2, "metadata": None, "error_code": 0}
    values = {"groups": [{"group_id": "g", "error_code": 0, "topics": [{"name": "t", "partitions": [item]}]}]}
    assert back(request, 8, values) == OffsetFetchResponse(ErrorCode.NONE, {A: FetchedOffset(ErrorCode.NONE, OffsetAndMetadata(7, 2))})
    assert back(request, 8, {"groups": []}).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_find_coordinator() -> None:
    request = FindCoordinator("g")
    assert tuple(there(request, 4).coordinator_keys) == ("g",)
    found = {"key": "g", "node_id": 3, "host": "h", "port": 9, "error_code": 0, "error_message": None}
    assert back(request, 4, {"coordinators": [found]}) == CoordinatorResponse(ErrorCode.NONE, 3, Endpoint("h", 9))
    assert back(request, 4, {"coordinators": []}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_list_offsets() -> None:
    request = ListOffsets({A: -2}, True)
    read = there(request, 6)
    assert (read.isolation_level, read.topics[0].partitions[0].timestamp) == (1, -2)
    item = {"partition_index": 3, "error_code": 0, "timestamp": -1, "offset": 5, "leader_epoch": 2}
    assert back(request, 6, {"topics": [{"name": "t", "partitions": [item]}]}) == {A: ListedOffset(ErrorCode.NONE, 5, 2)}


@pytest.mark.parametrize("version", [9, 12])
def test_metadata(version: int) -> None:
    request = Metadata(("t",))
    assert [each.name for each in there(request, version).topics] == ["t"]
    broker = {"node_id": 1, "host": "h", "port": 9, "rack": None}
    values = {"brokers": [broker], "cluster_id": None, "controller_id": 1, "topics": []}
    extra = {"cluster_authorized_operations": 0} if version == 9 else {}
    assert back(request, version, values | extra).endpoints == {1: Endpoint("h", 9)}


@pytest.mark.conformance(
    "FetcherTest.testFetchWithNoTopicId", "FetcherTest.testFetchWithTopicId", "FetcherTest.testFetchTopicIdUpgradeDowngrade"
)
@pytest.mark.parametrize(("topic_id", "broker", "version"), [("", 99, 12), ("A" * 22, 99, 16), ("A" * 22, 14, 13), ("A" * 22, 12, 12)])
def test_fetch(topic_id: str, broker: int, version: int) -> None:
    fetches = (PartitionFetch(A, 5, 2, topic_id),)
    encoded = encode_request(Fetch(fetches, FetchPolicy(), without_session(fetches)), AnyBroker(broker))  # type: ignore[arg-type]
    assert (encoded.api_key, encoded.version) == (ApiKey.FETCH, version)
    with pytest.raises(PeerError):
        encoded.read(memoryview(b"\0"))


def test_fetch_in_a_session() -> None:
    named, kept, gone = (PartitionFetch(TopicPartition("t", number), 5, 2, "A" * 22) for number in (1, 2, 3))
    request = Fetch((named, kept), FetchPolicy(rack="here"), SessionFields(7, 4, (named,), (gone,)))
    read = there(request, 16)
    assert (read.session_id, read.session_epoch, read.rack_id) == (7, 4, "here")
    assert [item.partition for item in read.topics[0].partitions] == [1]
    assert [list(topic.partitions) for topic in read.forgotten_topics_data] == [[3]]
    values = {"error_code": 0, "session_id": 8, "responses": []}
    assert back(request, 16, values) == FetchResponse((), {}, ErrorCode.NONE, 8)
    refused = back(request, 16, values | {"error_code": 71})
    assert (refused.error, len(refused.partitions)) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 2)
    without_ids = Fetch((named,), FetchPolicy(), SessionFields(7, 4, (named,), (gone._replace(topic_id=""),)))
    assert there(without_ids, 12).forgotten_topics_data[0].topic == "t"


@pytest.mark.parametrize("version", [3, 4])
def test_offset_for_leader_epoch(version: int) -> None:
    request = OffsetForLeaderEpoch({A: LeaderEpoch(2, 6)})
    read = there(request, version)
    (item,) = read.topics[0].partitions
    assert (read.replica_id, item.partition, item.leader_epoch, item.current_leader_epoch) == (-1, 3, 2, 6)
    part = {"error_code": 74, "partition": 3, "leader_epoch": 1, "end_offset": 9}
    assert back(request, version, {"topics": [{"topic": "t", "partitions": [part]}]}) == {A: EpochEnd(ErrorCode.FENCED_LEADER_EPOCH, 1, 9)}


@pytest.mark.conformance("ConsumerCoordinatorTest.testThrowOnUnsupportedStableFlag")
@pytest.mark.parametrize("request_", [JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, Metadata(None)])
def test_an_old_broker_is_refused(request_: Any) -> None:
    with pytest.raises(UnsupportedBrokerError):
        encode_request(request_, AnyBroker(1))  # type: ignore[arg-type]
