"""A group of Kafka Connect workers by raw requests: the coordinator serves any protocol type, and looks into none but the consumers'.

Metadata and assignments are bytes as Connect's workers write them (its ConnectProtocol, version 2), which mean nothing to a consumer.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, build_request, create_topic
from ottla.testing.waiting import wait_until
from tests.support.kit.consumer_protocol import encode_subscription

NOT_YET = {14, 15, 16}


def worker_state(url: str, config_offset: int) -> bytes:
    """What a worker says of itself: version, REST address, offset in the config topic, and a current assignment (none)."""
    return struct.pack(">hh", 2, len(url)) + url.encode() + struct.pack(">q", config_offset) + struct.pack(">i", -1)


def assignment(leader: str, connector: str, tasks: list[int]) -> bytes:
    """What the leading worker gives to one: version, error, leader, its address, offset, tasks by connector."""
    texts = b"".join(struct.pack(">h", len(each)) + each.encode() for each in (leader, "http://127.0.0.1:8083/"))
    return (
        struct.pack(">hh", 2, 0)
        + texts
        + struct.pack(">qih", 7, 1, len(connector))
        + connector.encode()
        + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)
    )


class Worker:
    """One Connect worker: it sends only what the test sends, and the test reads the responses."""

    def __init__(self, bootstrap_servers: str, group: str, url: str) -> None:
        self.client = RawClient(bootstrap_servers, client_id="connect-1")
        self.group, self.metadata = group, worker_state(url, 7)
        self.member_id, self.generation = "", -1
        self._asked: Any = None

    def send_join(self, protocol_type: str = "connect", protocol: str = "sessioned") -> None:
        """JoinGroup, whose answer comes when the others have joined, too."""
        values = {
            "group_id": self.group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": self.member_id,
            "protocol_type": protocol_type,
            "protocols": [{"name": protocol, "metadata": self.metadata}, {"name": "default", "metadata": self.metadata}],
        }
        self._asked = build_request(ApiKey.JOIN_GROUP, 7, values)
        self.client.send(self._asked)

    def joined(self) -> Any:
        """The answer to JoinGroup; a worker that is only given an id joins again with it."""
        answer = self.client.receive(self._asked)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.send_join(answer.protocol_type or self._asked.protocol_type, self._asked.protocols[0].name)
            return self.joined()
        self.member_id, self.generation = answer.member_id, int(answer.generation_id)
        return answer

    def sync(self, plan: dict[str, bytes] | None = None) -> Any:
        assignments = [{"member_id": member, "assignment": given} for member, given in (plan or {}).items()]
        return self.ask(ApiKey.SYNC_GROUP, 5, protocol_type="connect", protocol_name="sessioned", assignments=assignments)

    def ask(self, api_key: int, version: int, **values: Any) -> Any:
        """A request as this member."""
        own = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        return self.client.call(api_key, version, **(own | values))

    def leave(self, *workers: "Worker") -> list[int]:
        """LeaveGroup for this worker, or for all of these; the error of each."""
        members = [{"member_id": worker.member_id} for worker in workers or (self,)]
        return [int(each.error_code) for each in self.client.call(ApiKey.LEAVE_GROUP, 5, group_id=self.group, members=members).members]

    def heartbeat(self) -> int:
        return int(self.ask(ApiKey.HEARTBEAT, 4).error_code)

    def commit(self, topic: str, partition: int, offset: int, **who: Any) -> int:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        own = {"group_id": self.group, "generation_id_or_member_epoch": self.generation, "member_id": self.member_id}
        answer = self.client.call(ApiKey.OFFSET_COMMIT, 8, **(own | who), topics=[{"name": topic, "partitions": [part]}])
        return int(answer.topics[0].partitions[0].error_code)


@pytest.fixture
def workers(kafka_broker: Any, raw_client: Any, unique_name: Callable[[str], str]) -> Iterator[tuple[Worker, Worker]]:
    """Two workers of one group whose coordinator is there; none has joined."""
    group = unique_name("connect-cluster")
    wait_until(lambda: raw_client.call(ApiKey.FIND_COORDINATOR, 0, key=group).error_code not in NOT_YET, "a coordinator")
    wait_until(lambda: raw_client.call(ApiKey.DESCRIBE_GROUPS, 0, groups=[group]).groups[0].error_code not in NOT_YET, "a loaded one")
    pair = tuple(Worker(kafka_broker.bootstrap_servers, group, f"http://127.0.0.1:{port}/") for port in (8083, 8084))
    yield pair
    for worker in pair:
        worker.client.close()


@pytest.fixture
def topic(raw_client: Any, unique_name: Callable[[str], str]) -> str:
    name = unique_name("topic")
    create_topic(raw_client, name, 2)
    wait_until(
        lambda: raw_client.call(ApiKey.METADATA, 12, topics=[{"name": name}]).topics[0].error_code == ErrorCode.NONE,
        "the topic to be known",
    )
    return name


def form(first: Worker, second: Worker) -> dict[str, bytes]:
    """Both workers joined and synced; gives what the leader gave to whom."""
    first.send_join()
    assert first.joined().error_code == ErrorCode.NONE
    assert first.sync({first.member_id: b"alone"}).error_code == ErrorCode.NONE
    second.send_join()
    asked_for_id = second.client.receive(second._asked)
    assert asked_for_id.error_code == ErrorCode.MEMBER_ID_REQUIRED
    second.member_id = asked_for_id.member_id
    second.send_join()
    while first.heartbeat() == ErrorCode.NONE:
        pass  # until its heartbeat reports that another one wants to join
    first.send_join()
    leads, follows = first.joined(), second.joined()
    assert (leads.protocol_type, leads.protocol_name) == (follows.protocol_type, follows.protocol_name) == ("connect", "sessioned")
    assert leads.leader == follows.leader == first.member_id
    assert {each.member_id: each.metadata for each in leads.members} == {worker.member_id: worker.metadata for worker in (first, second)}
    assert follows.members == ()
    plan = {worker.member_id: assignment(first.member_id, "file-sink", [number]) for number, worker in enumerate((first, second))}
    given = first.sync(plan)
    assert (given.error_code, given.assignment, given.protocol_type, given.protocol_name) == (
        ErrorCode.NONE,
        plan[first.member_id],
        "connect",
        "sessioned",
    )
    assert second.sync().assignment == plan[second.member_id]
    return plan


def test_workers_join_sync_send_heartbeats_and_are_described(workers: tuple[Worker, Worker], kafka_broker: Any, raw_client: Any) -> None:
    first, second = workers
    plan = form(first, second)
    assert [worker.heartbeat() for worker in workers] == [ErrorCode.NONE, ErrorCode.NONE]
    (group,) = raw_client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[first.group]).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        ErrorCode.NONE,
        "Stable",
        "connect",
        "sessioned",
    )
    described = {each.member_id: (each.member_metadata, each.member_assignment, each.client_id) for each in group.members}
    assert described == {worker.member_id: (worker.metadata, plan[worker.member_id], "connect-1") for worker in workers}
    listed = [each for each in raw_client.call(ApiKey.LIST_GROUPS, 5).groups if each.group_id == first.group]
    assert [(each.protocol_type, each.group_state, each.group_type) for each in listed] == [("connect", "Stable", "classic")]

    consumer = Worker(kafka_broker.bootstrap_servers, first.group, "")
    consumer.send_join("consumer", "range")
    assert consumer.joined().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a consumer has no business in it"
    consumer.client.close()

    assert second.leave() == [ErrorCode.NONE]
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    first.send_join()
    alone = first.joined()
    assert [each.member_id for each in alone.members] == [first.member_id]


def test_offsets_of_a_group_that_is_not_of_consumers(workers: tuple[Worker, Worker], raw_client: Any, topic: str) -> None:
    first, second = workers
    form(first, second)
    assert first.commit(topic, 0, 5) == ErrorCode.NONE
    assert second.commit(topic, 1, 6) == ErrorCode.NONE
    no_member = {"generation_id_or_member_epoch": -1, "member_id": ""}
    assert first.commit(topic, 0, 9, **no_member) == ErrorCode.UNKNOWN_MEMBER_ID, "no other commits while it has members"
    asked = [{"name": topic, "partition_indexes": [0, 1]}]
    fetched = raw_client.call(ApiKey.OFFSET_FETCH, 7, group_id=first.group, topics=asked).topics[0].partitions
    assert [each.committed_offset for each in fetched] == [5, 6]

    def delete_offset() -> tuple[int, list[int]]:
        answer = raw_client.call(
            ApiKey.OFFSET_DELETE, 0, group_id=first.group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}]
        )
        return int(answer.error_code), [int(each.error_code) for named in answer.topics for each in named.partitions]

    # What its members subscribe to is unknown: as long as there are any, all its offsets are taken to be in use.
    assert delete_offset() == (ErrorCode.NON_EMPTY_GROUP, [])
    assert raw_client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[first.group]).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert first.leave(first, second) == [ErrorCode.NONE, ErrorCode.NONE]
    (group,) = raw_client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[first.group]).groups
    assert (group.group_state, group.protocol_type, group.members) == ("Empty", "connect", ())
    assert first.commit(topic, 0, 9, **no_member) == ErrorCode.NONE
    assert delete_offset() == (ErrorCode.NONE, [ErrorCode.NONE])
    fetched = raw_client.call(ApiKey.OFFSET_FETCH, 7, group_id=first.group, topics=asked).topics[0].partitions
    assert [each.committed_offset for each in fetched] == [-1, 6]

    # Not with a worker's bytes: Apache Kafka reads them as a list of topics that is longer than they are, and never answers.
    consumer = second
    consumer.member_id, consumer.metadata = "", encode_subscription([topic])
    consumer.send_join("consumer", "range")
    assert consumer.joined().protocol_type == "consumer", "an empty group takes members of another type"
