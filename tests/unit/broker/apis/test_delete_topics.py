"""DeleteTopics: by name, by id, and what goes with a topic."""

import uuid

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(api, make_topic, version: int) -> None:
    make_topic("t")
    named = (
        {"topics": [{"name": "t", "topic_id": None}, {"name": "gone", "topic_id": None}]}
        if version >= 6
        else {"topic_names": ["t", "gone"]}
    )
    answer = api.ask(ApiKey.DELETE_TOPICS, version, timeout=1000, **named)
    assert [(result.name, result.error_code) for result in answer.responses] == [("t", 0), ("gone", 3)]
    assert api.cluster.cluster_metadata.topics == {}


def test_by_id(api, make_topic) -> None:
    topic = make_topic("t")
    ids = [{"name": None, "topic_id": uuid.uuid4()}, {"name": None, "topic_id": uuid.UUID(bytes=topic.topic_id)}]
    assert [result.error_code for result in api.ask(ApiKey.DELETE_TOPICS, 6, timeout=1000, topics=ids).responses] == [100, 0]


def test_it_can_be_forbidden(make_api, make_topic) -> None:
    api = make_api({"delete.topic.enable": "false"})
    make_topic("t", of=api)
    assert api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"]).responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_the_records_and_the_committed_offsets_go_too(api, make_topic, batch, commit, committed) -> None:
    make_topic("t")
    produce = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"x")}]}]}
    api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, **produce)
    commit("g", "t", 1)
    assert committed("g", "t") == 1
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    make_topic("t")
    assert committed("g", "t") == -1
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 0
