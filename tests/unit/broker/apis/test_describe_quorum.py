"""DescribeQuorum: one voter, the first broker; the others that run observe."""

import uuid

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

QUORUM = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}


@pytest.mark.parametrize("version", range(3))
def test_every_version(api, make_topic, version: int) -> None:
    make_topic("t")
    answer = api.ask(ApiKey.DESCRIBE_QUORUM, version, topics=[QUORUM])
    ((partition,),) = [topic.partitions for topic in answer.topics]
    end = api.cluster.metadata_log.log.log_end_offset
    assert end > 1
    assert (partition.error_code, partition.leader_id, partition.high_watermark) == (0, 1, end)
    assert partition.leader_epoch == api.cluster.metadata_log.log.leader_epoch
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset, partition.observers) == (1, end, ())
    if version >= 1:
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (api.now_ms, api.now_ms)
    if version >= 2:
        assert voter.replica_directory_id == uuid.UUID(bytes=api.cluster.cluster_metadata.directory_id)
        assert [(node.node_id, node.listeners) for node in answer.nodes] == [(1, ())]


def test_other_brokers_that_run_observe(make_api) -> None:
    api = make_api(brokers=3)
    api.cluster.cluster_metadata.live_ids.discard(3)
    (partition,) = api.on(2).ask(ApiKey.DESCRIBE_QUORUM, 2, topics=[QUORUM]).topics[0].partitions
    assert [each.replica_id for each in partition.current_voters] == [1]
    assert [(each.replica_id, each.log_end_offset) for each in partition.observers] == [(2, partition.high_watermark)]


@pytest.mark.parametrize(
    "topics",
    [
        [{"topic_name": "t", "partitions": [{"partition_index": 0}]}],
        [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 1}]}],
        [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}] * 2}],
        [QUORUM, QUORUM],
    ],
)
def test_all_but_that_partition_alone_is_unknown(api, topics) -> None:
    answer = api.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=topics)
    found = [each for topic in answer.topics for each in topic.partitions]
    assert len(found) == sum(len(topic["partitions"]) for topic in topics)
    assert {each.error_code for each in found} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert (answer.error_code, answer.nodes) == (0, ())
