"""OffsetCommit: kept for those who may, refused one by one for those who may not."""

import uuid
from struct import pack

import pytest

from ottla.broker.apis import offset_commit
from ottla.broker.apis.offset_commit import PARTITIONS_MAX, CommittedTopic, _head_of_known, read_offset_commit
from ottla.groups.commands import CommitResult
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import encode_uvarint


def ask(api, version: int, *parts: tuple[str, int, int], topic_id=None, **changes):
    topics = [
        {
            **(
                {"topic_id": topic_id or uuid.UUID(bytes=api.cluster.cluster_metadata.topics[name].topic_id)}
                if version >= 10
                else {"name": name}
            ),
            "partitions": [{"partition_index": number, "committed_offset": offset, "committed_metadata": "m", "committed_leader_epoch": 5}],
        }
        for name, number, offset in parts
    ]
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "retention_time": -1}
    return [
        part.error_code
        for topic in api.ask(ApiKey.OFFSET_COMMIT, version, **{**fields, **changes}, topics=topics).topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits(api, make_topic, committed, version: int) -> None:
    make_topic("t")
    assert ask(api, version, ("t", 0, 42)) == [0]
    assert committed("g", "t") == 42


@pytest.mark.parametrize("version", [2, 8, 9])
def test_heads_of_answers_are_only_kept_for_topics_that_exist(api, make_topic, version: int) -> None:
    make_topic("kept")
    _head_of_known.cache_clear()
    assert ask(api, version, *[("x" * 30_000 + str(number), 0, 1) for number in range(5)], ("kept", 9, 1)) == [3] * 6
    assert _head_of_known.cache_info().currsize == 0
    assert ask(api, version, ("gone", 0, 1), ("kept", 0, 1)) == [3, 0]
    assert _head_of_known.cache_info().currsize == 1


@pytest.mark.parametrize("version", [2, 8, 9])
def test_partitions_that_do_not_exist_do_not_keep_others_from_being_kept(api, make_topic, committed, version: int) -> None:
    make_topic("t")
    assert ask(api, version, ("gone", 0, 1), ("t", 0, 7), ("t", 9, 1)) == [3, 0, 3]
    assert committed("g", "t") == 7


def test_offset_and_leader_epoch_are_kept_beside_a_partition_that_does_not_exist(api, make_topic) -> None:
    make_topic("t", 2)
    parts = [(1, 7, 5), (9, 8, 6), (0, 9, 4)]
    topic = {
        "name": "t",
        "partitions": [
            {"partition_index": number, "committed_offset": offset, "committed_metadata": "m", "committed_leader_epoch": epoch}
            for number, offset, epoch in parts
        ],
    }
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = api.ask(ApiKey.OFFSET_COMMIT, 8, **fields, topics=[topic])
    assert [part.error_code for part in answer.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    fetched = api.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0, 1]}], require_stable=False)
    kept = {part.partition_index: (part.committed_offset, part.committed_leader_epoch) for part in fetched.topics[0].partitions}
    assert kept == {0: (9, 4), 1: (7, 5)}


def test_an_unknown_topic_id(api, make_topic) -> None:
    make_topic("t")
    assert ask(api, 10, ("t", 0, 1), topic_id=uuid.uuid4()) == [100]


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_a_generation_of_a_group_that_is_not_there(api, make_topic, version: int, error: int) -> None:
    make_topic("t")
    assert ask(api, version, ("t", 0, 1), generation_id_or_member_epoch=3, member_id="m") == [error]


def test_a_commit_of_an_older_generation_is_refused(api, make_topic, member) -> None:
    make_topic("t")
    owner = member()
    owner.join()
    owner.sync(assignments={owner.member_id: b""})
    mine = {"member_id": owner.member_id}
    assert ask(api, 8, ("t", 0, 1), generation_id_or_member_epoch=owner.generation, **mine) == [0]
    assert ask(api, 8, ("t", 0, 1), generation_id_or_member_epoch=owner.generation - 1, **mine) == [22]
    assert ask(api, 8, ("t", 0, 1)) == [25]


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(make_api, make_topic, commit) -> None:
    api = make_api({"offset.metadata.max.bytes": "3"})
    make_topic("t", of=api)
    assert [commit("g", "t", 1, "abc", of=api), commit("g", "t", 1, "abcd", of=api), commit("g", "t", 1, None, of=api)] == [0, 12, 0]


def test_offsets_are_records_of_the_offsets_topic_and_outlive_the_broker(make_api, make_topic, commit, committed) -> None:
    first = make_api()
    make_topic("t", of=first)
    commit("test-group", "t", 42, of=first)
    log = first.cluster.partitions.by_name("__consumer_offsets", 12).log
    (record,) = log.read_records(0)
    assert record.key.hex() == "0001" + "000a" + b"test-group".hex() + "0001" + b"t".hex() + "00000000"
    assert committed("test-group", "t", of=make_api(files=first.files)) == 42


def committing(*topics: tuple[str, list[int]]) -> dict:
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        "member_id": "m",
        "group_instance_id": None,
        "topics": [
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
                    for number in numbers
                ],
            }
            for name, numbers in topics
        ],
    }


def test_partitions_that_do_not_exist_need_no_coordinator(one_api, groups_double, metadata) -> None:
    api = one_api(offset_commit.API, groups=groups_double, cluster_metadata=metadata)
    answer = api.ask(ApiKey.OFFSET_COMMIT, 8, **committing(("u", [0]), ("t", [2])))
    assert [part.error_code for topic in answer.topics for part in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert groups_double.commands == []


def test_the_coordinator_is_asked_for_those_that_exist(one_api, groups_double, metadata) -> None:
    api = one_api(offset_commit.API, groups=groups_double, cluster_metadata=metadata)
    answer = api.start(ApiKey.OFFSET_COMMIT, 8, **committing(("t", [0, 2, 1])))
    (command,) = groups_double.commands
    (offsets,) = command.offsets.topics
    assert (command.generation, offsets.topic, list(offsets.partitions), list(offsets.offsets)) == (3, "t", [0, 1], [7, 7])
    groups_double.answer(CommitResult(errors=(ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)))
    (topic,) = api.finish(ApiKey.OFFSET_COMMIT, 8, answer).topics
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [
        (0, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ]


# An OffsetCommit from its bytes; kio's reader agrees (tests/properties/test_group_requests.py).

HEAD = b"\2g" + b"\0\0\0\7" + b"\2m" + b"\0" + b"\2"


def flexible(*texts: bytes) -> bytes:
    rows = [pack(">iqi", number, 100 + number, 5) + text + b"\0" for number, text in enumerate(texts)]
    return HEAD + b"\2t" + bytes([len(rows) + 1]) + b"".join(rows) + b"\0" + b"\0"


def test_partitions_without_metadata_are_read_as_columns() -> None:
    for texts in ([b"\1"], [b"\1", b"\0", b"\1"]):
        numbers = tuple(range(len(texts)))
        (topic,) = read_offset_commit(flexible(*texts), 0, 9).topics
        assert topic == CommittedTopic("t", numbers, tuple(100 + number for number in numbers), (5,) * len(texts), None)


@pytest.mark.parametrize("texts", [[b"\3ab"], [b"\1", b"\3ab"], [b"\3ab", b"\1"], [b"\3ab", b"\3cd"]])
def test_metadata_of_one_size_and_of_several(texts: list[bytes]) -> None:
    (topic,) = read_offset_commit(flexible(*texts), 0, 9).topics
    assert list(topic.metadata) == ["" if text == b"\1" else text[1:].decode() for text in texts]
    assert list(topic.offsets) == [100 + number for number in range(len(texts))]


def test_versions_2_to_5_have_no_epoch_and_up_to_4_a_retention() -> None:
    body = b"\0\1g\0\0\0\7\0\1m" + pack(">q", 500) + b"\0\0\0\1\0\1t\0\0\0\1" + pack(">iqh", 3, 9, -1)
    asked = read_offset_commit(body, 0, 2)
    assert (asked.retention_ms, asked.topics) == (500, [CommittedTopic("t", (3,), (9,), (-1,), None)])


def test_topics_by_id() -> None:
    topic_id = bytes(range(16))
    body = HEAD + topic_id + b"\1" + b"\0" + b"\0"
    assert read_offset_commit(body, 0, 10).topics == [CommittedTopic(topic_id, (), (), (), None)]


def test_metadata_that_no_record_could_hold() -> None:
    fits, too_long = (encode_uvarint(size + 1) + b"x" * size for size in (32_767, 32_768))
    (topic,) = read_offset_commit(flexible(b"\1", fits), 0, 9).topics
    assert [len(text) for text in topic.metadata] == [0, 32_767]
    with pytest.raises(PeerError, match="32768 bytes"):
        read_offset_commit(flexible(b"\1", too_long), 0, 9)


def test_metadata_of_a_negative_length() -> None:
    good, bad = pack(">iqih", 0, 1, 1, 0), pack(">iqih", 0, 1, 1, -2)
    for count in (1, 2):
        with pytest.raises(PeerError):
            read_offset_commit(commit_v7(count).replace(good, bad), 0, 7)


@pytest.mark.parametrize("texts", [[b"\1", b"\3ab", b"\1"], [b"\3ab", b"\3cd"], [b"\1"], [b"\1", b"\1"]])
def test_half_a_one_is_refused(texts: list[bytes]) -> None:
    body = flexible(*texts)
    for end in range(len(body)):
        with pytest.raises(PeerError):
            read_offset_commit(body[:end], 0, 9)


def commit_v7(*partitions_by_topic: int) -> bytes:
    topics = [b"\0\1t" + pack(">i", count) + pack(">iqih", 0, 1, 1, 0) * count for count in partitions_by_topic]
    return b"\0\1g\0\0\0\7\0\1m\xff\xff" + pack(">i", len(topics)) + b"".join(topics)


def test_topics_and_partitions_are_bounded_together() -> None:
    asked = read_offset_commit(commit_v7(PARTITIONS_MAX - 1), 0, 7)
    assert len(asked.topics[0].partitions) == PARTITIONS_MAX - 1
    for counts in ((PARTITIONS_MAX,), (0,) * (PARTITIONS_MAX + 1), (PARTITIONS_MAX - 10, 9), (1,) * (PARTITIONS_MAX // 2 + 1)):
        with pytest.raises(PeerError, match=f"more than {PARTITIONS_MAX} topics and partitions"):
            read_offset_commit(commit_v7(*counts), 0, 7)
