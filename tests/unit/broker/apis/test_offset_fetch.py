"""OffsetFetch: one group or many, some topics or all."""

import uuid

import pytest

from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_reads_what_was_committed(api, make_topic, commit, version: int) -> None:
    topic = make_topic("t", 2)
    commit("g", "t", 42, "meta")
    name = {"topic_id": uuid.UUID(bytes=topic.topic_id)} if version >= 10 else {"name": "t"}
    topics = [{**name, "partition_indexes": [0, 1]}]
    if version >= 8:
        groups = [{"group_id": group, "topics": topics, "member_id": None, "member_epoch": -1} for group in ("g", "unknown")]
        known, unknown = api.ask(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=False).groups
        assert [part.committed_offset for part in unknown.topics[0].partitions] == [-1, -1]
    else:
        known = api.ask(ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics, require_stable=False)
    first, second = known.topics[0].partitions
    assert (first.committed_offset, first.metadata, first.error_code) == (42, "meta", 0)
    assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", 0)


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_null_topics_ask_for_all(api, make_topic, commit, version: int) -> None:
    make_topic("a")
    make_topic("b")
    commit("g", "a", 1)
    commit("g", "b", 2)
    asked = (
        {"groups": [{"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}]}
        if version >= 8
        else {"group_id": "g", "topics": None}
    )
    answer = api.ask(ApiKey.OFFSET_FETCH, version, **asked, require_stable=False)
    group = answer.groups[0] if version >= 8 else answer
    assert sorted(part.committed_offset for topic in group.topics for part in topic.partitions) == [1, 2]


def test_an_unknown_topic_id(api) -> None:
    no_topic = uuid.uuid4()
    groups = [{"group_id": "g", "topics": [{"topic_id": no_topic, "partition_indexes": [0]}], "member_id": None, "member_epoch": -1}]
    (group,) = api.ask(ApiKey.OFFSET_FETCH, 10, groups=groups, require_stable=False).groups
    assert (group.topics[0].topic_id, group.topics[0].partitions[0].error_code) == (no_topic, 100)


def fetched(api, version: int, topics) -> list[tuple[object, list[int]]]:
    groups = [{"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}]
    (group,) = api.ask(ApiKey.OFFSET_FETCH, version, groups=groups, require_stable=False).groups
    key = "topic_id" if version >= 10 else "name"
    return [(getattr(topic, key), [part.committed_offset for part in topic.partitions]) for topic in group.topics]


@pytest.mark.conformance("OffsetMetadataManagerTest.testFetchOffsetsWithRecreatedTopic")
def test_offsets_that_outlived_their_topic_are_not_those_of_the_next_one(api, make_topic, commit, monkeypatch) -> None:
    make_topic("t")
    commit("g", "t", 42)
    monkeypatch.setattr(type(api.groups.coordinators), "run_everywhere", lambda *_: set())
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert fetched(api, 9, None) == [("t", [42])]
    assert fetched(api, 10, None) == [], "a topic that is no more has no id to be called by"
    again = uuid.UUID(bytes=make_topic("t").topic_id)
    by_id, by_name = [{"topic_id": again, "partition_indexes": [0]}], [{"name": "t", "partition_indexes": [0]}]
    assert fetched(api, 10, by_id) == [(again, [-1])]
    assert fetched(api, 9, by_name) == [("t", [42])], "versions that know no ids cannot tell"
    commit("g", "t", 7)
    assert fetched(api, 10, by_id) == [(again, [7])]


def test_a_group_that_is_refused_has_no_topics_in_its_answer(api, make_topic, commit, monkeypatch) -> None:
    make_topic("t")
    commit("g", "t", 42)
    (loop,) = api.groups.coordinators.all()
    monkeypatch.setattr(loop.coordinator, "status", CoordinatorStatus.LOADING)
    groups = [{"group_id": "g", "topics": [{"topic_id": uuid.uuid4(), "partition_indexes": [0]}], "member_id": None, "member_epoch": -1}]
    (group,) = api.ask(ApiKey.OFFSET_FETCH, 10, groups=groups, require_stable=False).groups
    assert (group.error_code, group.topics) == (14, ())
    monkeypatch.undo()
