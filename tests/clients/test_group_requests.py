"""Requests of group members over a socket, in every version that Apache Kafka 4 still has, as its own request tests send them."""

import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, build_request
from ottla.testing.waiting import wait_until

NOT_YET = {14, 15, 16}
METADATA = struct.pack(">hi", 0, 1) + struct.pack(">h", 3) + b"foo" + struct.pack(">i", -1)
INSTANCE = "group-instance-id"


class Members:
    """One group, on a connection for each of two members: what waits on one of them does not hold up the other."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.first, self.second = RawClient(bootstrap_servers), RawClient(bootstrap_servers)
        self.group = group
        self._wait_until = wait_until
        wait_until(lambda: self.first.call(ApiKey.FIND_COORDINATOR, 0, key=group).error_code == ErrorCode.NONE, "a coordinator")
        wait_until(lambda: self._described().error_code not in NOT_YET, "a loaded coordinator")

    def close(self) -> None:
        self.first.close()
        self.second.close()

    def joining(self, version: int, member_id: str = "", instance: str | None = None, **values: Any) -> Any:
        """A JoinGroup; the instance id where the version has one."""
        base = {
            "group_id": self.group,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": METADATA}],
        }
        return build_request(ApiKey.JOIN_GROUP, version, base | ({"group_instance_id": instance} if version >= 5 else {}) | values)

    def join(self, version: int, member_id: str = "", instance: str | None = None, **values: Any) -> Any:
        return self.first.ask(self.joining(version, member_id, instance, **values))

    def lead(self, version: int = 5) -> str:
        """Join alone, in one request or two; the member's id, which leads generation 1."""
        answer = self.join(version)
        return str(
            self.join(version, answer.member_id).member_id if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else answer.member_id
        )

    def in_two_connections(self, waiting: Any, then: Any) -> tuple[Any, Any]:
        """The second connection waits for its answer, and once the group prepares a round the first one asks; both answers."""
        self.second.send(waiting)
        self.until("PreparingRebalance")
        answer = self.first.ask(then)
        return self.second.receive(waiting), answer

    def sync(self, version: int, member_id: str, generation: int, plan: dict[str, bytes] | None = None, **values: Any) -> Any:
        assignments = [{"member_id": each, "assignment": part} for each, part in (plan or {}).items()]
        base = {"group_id": self.group, "generation_id": generation, "member_id": member_id, "assignments": assignments}
        said = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        return self.first.call(ApiKey.SYNC_GROUP, version, **(base | said | values))

    def heartbeat(self, version: int, member_id: str, generation: int, group: str | None = None) -> int:
        asked = {"group_id": self.group if group is None else group, "generation_id": generation, "member_id": member_id}
        return int(self.first.call(ApiKey.HEARTBEAT, version, **asked).error_code)

    def leave(self, version: int, *members: tuple[str, str | None], group: str | None = None) -> tuple[int, list[int]]:
        """The error of all and, from version 3 on, those of each."""
        asked: dict[str, Any] = {"group_id": self.group if group is None else group}
        if version < 3:
            asked["member_id"] = members[0][0]
        else:
            asked["members"] = [{"member_id": member_id, "group_instance_id": instance} for member_id, instance in members]
        answer = self.first.call(ApiKey.LEAVE_GROUP, version, **asked)
        return int(answer.error_code), [int(each.error_code) for each in getattr(answer, "members", ())]

    def until(self, state: str) -> None:
        self._wait_until(lambda: self._described().group_state == state, state)

    def _described(self) -> Any:
        (described,) = self.first.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[self.group]).groups
        return described


@pytest.fixture
def members(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Callable[[], Members]]:
    """`members()` is a group without members."""
    made: list[Members] = []

    def make() -> Members:
        made.append(Members(kafka_broker.bootstrap_servers, unique_name("group")))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fields_of(answer: Any) -> tuple[Any, ...]:
    """Of an answer to JoinGroup: error, generation, leader, member id, and whom it names."""
    listed = [(each.member_id, getattr(each, "group_instance_id", None), bytes(each.metadata)) for each in answer.members]
    return int(answer.error_code), int(answer.generation_id), answer.leader, answer.member_id, sorted(listed)


@pytest.mark.conformance("JoinGroupRequestTest.testJoinGroupWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(2, 10))
def test_join_group(members: Callable[[], Members], version: int) -> None:
    group = members()
    none, instance = None if version >= 7 else "", INSTANCE if version >= 5 else None
    answer = group.join(version)
    leader = answer.member_id
    if version >= 4:
        assert (*fields_of(answer), answer.protocol_name) == (ErrorCode.MEMBER_ID_REQUIRED, -1, "", leader, [], none)
        answer = group.join(version, leader)
    assert (*fields_of(answer), answer.protocol_name) == (ErrorCode.NONE, 1, leader, leader, [(leader, None, METADATA)], "range")
    assert group.sync(3, leader, 1, {leader: b"\1"}).assignment == b"\1"
    refused = group.join(version, "member-id-unknown")
    assert (*fields_of(refused), refused.protocol_name) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "", "member-id-unknown", [], none)
    assert fields_of(group.join(version, protocol_type="connect")) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, -1, "", "", [])

    follower = group.second.ask(group.joining(version)).member_id if version == 4 else ""
    joined, answer = group.in_two_connections(group.joining(version, follower, instance), group.joining(version, leader))
    follower = joined.member_id
    assert fields_of(joined) == (ErrorCode.NONE, 2, leader, follower, [])
    assert fields_of(answer) == (ErrorCode.NONE, 2, leader, leader, sorted([(leader, None, METADATA), (follower, instance, METADATA)]))
    assert group.sync(3, leader, 2, {leader: b"\1", follower: b"\2"}).assignment == b"\1"
    assert group.sync(3, follower, 2).assignment == b"\2"
    assert fields_of(group.join(version, follower, instance)) == (ErrorCode.NONE, 2, leader, follower, []), "the same words start no round"
    if version >= 5:
        fence(group, version, leader, follower)


def fence(group: Members, version: int, leader: str, follower: str) -> None:
    """Another process comes with the follower's instance id while the leader waits for a round."""
    answer, joined = group.in_two_connections(group.joining(version, leader), group.joining(version, "", INSTANCE))
    assert joined.member_id != follower
    assert fields_of(joined) == (ErrorCode.NONE, 3, leader, joined.member_id, [])
    assert fields_of(answer) == (
        ErrorCode.NONE,
        3,
        leader,
        leader,
        sorted([(leader, None, METADATA), (joined.member_id, INSTANCE, METADATA)]),
    )
    assert fields_of(group.join(version, follower, INSTANCE)) == (ErrorCode.FENCED_INSTANCE_ID, -1, "", follower, [])


@pytest.mark.conformance("SyncGroupRequestTest.testSyncGroupWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(6))
def test_sync_group(members: Callable[[], Members], version: int) -> None:
    group = members()
    assert group.sync(version, "member-id", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    leader = group.lead()
    if version >= 5:
        for said in ({"protocol_name": "unmatched"}, {"protocol_type": "unmatched"}):
            refused = group.sync(version, leader, 1, {leader: b"\1"}, **said)
            assert (refused.error_code, refused.protocol_type, refused.protocol_name) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None, None)
    assert group.sync(version, "member-id-unknown", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync(version, leader, 2).error_code == ErrorCode.ILLEGAL_GENERATION
    answer = group.sync(version, leader, 1, {leader: b"\1"})
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"\1")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")

    joined, _ = group.in_two_connections(group.joining(5, "", INSTANCE), group.joining(5, leader))
    follower, plan = joined.member_id, {leader: b"\1", joined.member_id: b"\2"}
    assert group.sync(version, leader, 2, plan).assignment == b"\1", "the leader ahead of the follower"
    assert group.sync(version, follower, 2).assignment == b"\2"
    joined, _ = group.in_two_connections(group.joining(5, leader), group.joining(5, follower, INSTANCE))
    base = {"group_id": group.group, "generation_id": 3, "member_id": follower}
    waiting = build_request(ApiKey.SYNC_GROUP, 3, base)
    group.second.send(waiting)
    assert group.sync(version, leader, 3, plan).assignment == b"\1", "the follower ahead of the leader, or at the same time"
    assert group.second.receive(waiting).assignment == b"\2"


@pytest.mark.conformance("HeartbeatRequestTest.testHeartbeatWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(5))
def test_heartbeat(members: Callable[[], Members], unique_name: Callable[[str], str], version: int) -> None:
    group = members()
    leader, unknown = group.lead(), unique_name("group-unknown")
    assert group.heartbeat(version, "member-id-unknown", -1, unknown) in {ErrorCode.UNKNOWN_MEMBER_ID, *NOT_YET}
    assert group.heartbeat(version, "member-id-unknown", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(version, leader, -1) == ErrorCode.ILLEGAL_GENERATION
    assert group.heartbeat(version, leader, 1) == ErrorCode.NONE, "CompletingRebalance"
    group.sync(3, leader, 1, {leader: b"\1"})
    assert group.heartbeat(version, leader, 1) == ErrorCode.NONE, "Stable"
    waiting = group.joining(5, group.second.ask(group.joining(5)).member_id)
    group.second.send(waiting)
    group.until("PreparingRebalance")
    assert group.heartbeat(version, leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.join(5, leader).error_code == ErrorCode.NONE
    joined = group.second.receive(waiting)
    assert group.leave(3, (leader, None), (joined.member_id, None)) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.NONE])
    group.until("Empty")
    assert group.heartbeat(version, leader, -1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.conformance("LeaveGroupRequestTest.testLeaveGroupWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(6))
def test_leave_group(members: Callable[[], Members], version: int) -> None:
    group = members()
    unknown = (ErrorCode.UNKNOWN_MEMBER_ID, []) if version < 3 else (ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID])
    assert group.leave(version, ("member-id", None)) == unknown, "an unknown group"
    member = group.lead()
    for member_id in (member, "member-id-unknown"):
        assert group.leave(version, (member_id, None), group="") == (ErrorCode.INVALID_GROUP_ID, [])
    assert group.leave(version, ("unknown-member-id", None)) == unknown
    if version >= 3:
        assert group.leave(version, ("unknown-member-id", None), ("", None)) == (ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * 2)
    assert group.leave(version, (member, None)) == (ErrorCode.NONE, [] if version < 3 else [ErrorCode.NONE])
    group.until("Empty")
    if version >= 3:
        assert group.join(5, "", INSTANCE).error_code == ErrorCode.NONE
        assert group.leave(version, ("member-id-fenced", INSTANCE)) == (ErrorCode.NONE, [ErrorCode.FENCED_INSTANCE_ID])
        assert group.leave(version, ("", INSTANCE)) == (ErrorCode.NONE, [ErrorCode.NONE])
        group.until("Empty")


@pytest.mark.conformance(
    "OffsetFetchRequestTest.testFetchOffsetWithRecreatedTopic",
    "OffsetMetadataManagerTest.testFetchOffsetsWithRecreatedTopic",
    "OffsetMetadataManagerTest.testFetchOffsetsWithTopicIds",
)
def test_offsets_of_a_topic_that_was_recreated(members: Callable[[], Members], unique_name: Callable[[str], str]) -> None:
    group, topic = members(), unique_name("topic")
    client, asked = group.first, {"name": topic, "num_partitions": 3, "replication_factor": 1}

    def make() -> uuid.UUID:
        def made() -> Any:
            (answer,) = client.call(ApiKey.CREATE_TOPICS, 7, timeout=5000, topics=[asked]).topics
            return answer

        answers: list[Any] = []
        wait_until(lambda: answers and answers[-1].error_code == ErrorCode.NONE, "the topic", lambda: answers.append(made()))
        return uuid.UUID(bytes=answers[-1].topic_id.bytes)

    def commit(topic_id: uuid.UUID) -> set[int]:
        parts = [{"partition_index": number, "committed_offset": 100 + number} for number in range(3)]
        asked = {"group_id": group.group, "generation_id_or_member_epoch": -1, "topics": [{"topic_id": topic_id, "partitions": parts}]}
        return {int(part.error_code) for each in client.call(ApiKey.OFFSET_COMMIT, 10, **asked).topics for part in each.partitions}

    def fetch(topic_id: uuid.UUID) -> list[int]:
        asked = [{"group_id": group.group, "topics": [{"topic_id": topic_id, "partition_indexes": [0, 1, 2]}]}]
        (answer,) = client.call(ApiKey.OFFSET_FETCH, 10, groups=asked).groups
        return [int(part.committed_offset) for each in answer.topics for part in each.partitions]

    first_id = make()
    wait_until(lambda: commit(first_id) == {ErrorCode.NONE}, "commits for a topic that is known everywhere")
    assert fetch(first_id) == [100, 101, 102]
    client.call(ApiKey.DELETE_TOPICS, 6, timeout=5000, topics=[{"name": topic}])
    second_id = make()
    assert second_id != first_id
    assert fetch(second_id) == [-1, -1, -1]


@pytest.mark.conformance("OffsetFetchRequestTest.testGroupErrors")
def test_an_offset_fetch_that_the_wrong_broker_is_asked() -> None:
    from ottla.broker import Cluster

    topics = [{"name": "foo", "topic_id": uuid.UUID(int=1), "partition_indexes": [0]}]
    with Cluster(brokers=2) as cluster:
        (other,) = {1, 2} - {cluster.coordinator("g").broker_id}
        with RawClient(cluster.address(other)) as client:
            for version in range(1, 11):
                answer = client.call(
                    ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics, groups=[{"group_id": "g", "topics": topics}]
                )
                if version < 2:
                    assert [part.error_code for part in answer.topics[0].partitions] == [ErrorCode.NOT_COORDINATOR]
                else:
                    assert (answer if version < 8 else answer.groups[0]).error_code == ErrorCode.NOT_COORDINATOR
