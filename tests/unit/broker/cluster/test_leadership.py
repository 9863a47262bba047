"""Leadership changes hands, as clients of each broker see it: who refuses, who answers, who is told while it waits."""

import uuid

import pytest

from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CONSUMER_OFFSETS, NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.consumer_protocol import encode_subscription
from tests.support.kit.sessions import listen

RECORDS = bytes(encode_batch([Record(0, 5, None, b"x")]))


@pytest.fixture
def three(make_api):
    """Three brokers and a topic `t` with one partition, led by broker 1."""
    api = make_api({"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "60000"}, brokers=3)
    api.cluster.topics.create(NewTopic(name="t", partitions=1, replication_factor=3))
    return api


def produce(api, broker: int) -> int:
    topic = {"name": "t", "partition_data": [{"index": 0, "records": RECORDS}]}
    answer = api.on(broker).ask(ApiKey.PRODUCE, 8, acks=-1, timeout=1000, topic_data=[topic])
    return answer.responses[0].partition_responses[0].error_code


def fetch_fields(wait_ms: int = 0, leader_epoch: int = -1) -> dict:
    part = {"partition": 0, "current_leader_epoch": leader_epoch, "fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1000}
    topic = {"topic": "t", "topic_id": None, "partitions": [part]}
    return {"replica_id": -1, "max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1000, "topics": [topic], "forgotten_topics_data": []}


def move(api, topic: str, number: int, to: int):
    async def moved():
        return api.cluster.leadership.move(topic, number, to)

    return api.runner.run(moved())


def test_only_the_leader_takes_and_hands_out_records(three) -> None:
    assert [produce(three, broker) for broker in (1, 2, 3)] == [ErrorCode.NONE] + 2 * [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert move(three, "t", 0, 2) is None
    assert [produce(three, broker) for broker in (1, 2)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    (topic,) = three.on(2).ask(ApiKey.FETCH, 12, **fetch_fields()).responses
    assert len(topic.partitions[0].records) == 2 * len(RECORDS), "what the one wrote, the other reads"
    (topic,) = three.on(1).ask(ApiKey.FETCH, 12, **fetch_fields()).responses
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_each_batch_says_in_which_leader_epoch_it_was_written(three) -> None:
    produce(three, 1)
    move(three, "t", 0, 2)
    produce(three, 2)
    log = three.cluster.partitions.by_name("t", 0).log
    assert [header.leader_epoch for header, _ in log.read_batches(0)] == [0, 1]


def test_who_asks_the_old_leader_learns_the_new_one_with_its_address(three) -> None:
    listen(three.cluster.brokers.nodes[3], "third.example", 9094)
    topic_id = three.cluster.cluster_metadata.topics["t"].topic_id
    produce(three, 1)
    move(three, "t", 0, 3)
    fields = fetch_fields()
    fields["topics"][0]["topic_id"] = uuid.UUID(bytes=topic_id)
    answer = three.on(1).ask(ApiKey.FETCH, 16, **fields)
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (3, 1)
    assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(3, "third.example", 9094)]


@pytest.mark.parametrize("version", range(8, 13))
def test_a_producer_learns_who_leads_instead(three, version) -> None:
    listen(three.cluster.brokers.nodes[3], "third.example", 9094)
    move(three, "t", 0, 3)
    topic = {"name": "t", "partition_data": [{"index": 0, "records": RECORDS}]}
    answer = three.on(1).ask(ApiKey.PRODUCE, version, acks=-1, timeout=1000, transactional_id=None, topic_data=[topic])
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (3, 1)
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [(3, "third.example", 9094)]


def test_who_waits_at_the_end_of_a_log_learns_when_the_leader_moves(three) -> None:
    waiting = three.on(1).start(ApiKey.FETCH, 12, **fetch_fields(wait_ms=60_000))
    move(three, "t", 0, 2)
    (topic,) = three.finish(ApiKey.FETCH, 12, waiting).responses
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_offsets_are_asked_of_the_leader(three) -> None:
    asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    codes = [
        three.on(broker).ask(ApiKey.LIST_OFFSETS, 1, replica_id=-1, topics=asked).topics[0].partitions[0].error_code for broker in (1, 2)
    ]
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def metadata(api, topic: str):
    quiet = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return api.on(2).ask(ApiKey.METADATA, 12, topics=[{"name": topic, "topic_id": None}], **quiet)


def test_metadata_shows_brokers_that_run_and_who_leads(three) -> None:
    answer = metadata(three, "t")
    assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
    (part,) = answer.topics[0].partitions
    assert (part.leader_id, part.replica_nodes, part.isr_nodes, part.offline_replicas) == (1, (1, 2, 3), (1, 2, 3), ())

    async def gone() -> None:
        three.cluster.leadership.broker_stopped(three.cluster.brokers.nodes[1])

    three.runner.run(gone())
    answer = metadata(three, "t")
    assert ([broker.node_id for broker in answer.brokers], answer.controller_id) == ([2, 3], 2)
    (part,) = answer.topics[0].partitions
    assert (part.leader_id, part.leader_epoch, part.isr_nodes, part.offline_replicas) == (2, 1, (2, 3), (1,))


def test_a_partition_of_stopped_brokers_has_no_leader(three) -> None:
    three.cluster.topics.create(NewTopic(name="single", partitions=1))

    async def gone() -> None:
        three.cluster.leadership.broker_stopped(three.cluster.brokers.nodes[1])

    three.runner.run(gone())
    (part,) = metadata(three, "single").topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_the_coordinator_is_the_leader_of_the_groups_partition(three) -> None:
    for broker in (1, 2, 3):
        found = three.on(broker).ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g", "h", "i"])
        assert [each.node_id for each in found.coordinators] == [2, 3, 1]  # hashes 103, 104 and 105 modulo 3
    answers = [three.on(broker).ask(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m") for broker in (1, 2, 3)]
    assert [each.error_code for each in answers] == [
        ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR
    ]  # fmt: skip


def commit(api, broker: int, offset: int) -> int:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = api.on(broker).ask(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[{"name": "t", "partitions": [part]}], **fields)
    return answer.topics[0].partitions[0].error_code


def committed(api, broker: int) -> int:
    answer = api.on(broker).ask(
        ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}], require_stable=False
    )
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0].committed_offset


def test_a_groups_offsets_move_with_its_coordinator(three) -> None:
    assert commit(three, 2, 7) == ErrorCode.NONE
    move(three, CONSUMER_OFFSETS, 1, 3)
    assert commit(three, 2, 8) == ErrorCode.NOT_COORDINATOR
    three.settle()
    assert committed(three, 3) == 7
    assert commit(three, 3, 9) == ErrorCode.NONE
    assert committed(three, 3) == 9


def test_a_parked_join_learns_to_look_for_the_new_coordinator(three) -> None:
    fields = {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": encode_subscription(["t"])}],
    }
    member_id = three.on(2).ask(ApiKey.JOIN_GROUP, 5, member_id="", **fields).member_id
    waiting = three.on(2).start(ApiKey.JOIN_GROUP, 5, member_id=member_id, **fields)
    move(three, CONSUMER_OFFSETS, 1, 1)
    assert three.finish(ApiKey.JOIN_GROUP, 5, waiting).error_code == ErrorCode.NOT_COORDINATOR


def test_a_move_that_cannot_be_written_changes_nothing(three, monkeypatch) -> None:
    commit(three, 2, 7)
    append = PartitionLog.append_records

    def full(log, *args, **kwargs):
        if log.directory.startswith("__cluster_metadata"):
            raise StorageError("the disk is full")
        return append(log, *args, **kwargs)

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError, match="the disk is full"):
        move(three, CONSUMER_OFFSETS, 1, 3)
    three.settle()
    assert committed(three, 2) == 7
    with pytest.raises(StorageError, match="the disk is full"):
        three.runner.run(_gone(three))
    assert three.cluster.brokers.nodes[2].is_alive


async def _gone(api) -> None:
    api.cluster.leadership.broker_stopped(api.cluster.brokers.nodes[2])
