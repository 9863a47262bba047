"""OffsetCommit: kept for those who may, refused one by one for those who may not."""

import uuid

import pytest


def ask(api, version: int, *parts: tuple[str, int, int], topic_id=None, **changes):
    topics = [
        {
            **({"topic_id": topic_id or uuid.UUID(bytes=api.cluster.catalogue.topics[name].topic_id)} if version >= 10 else {"name": name}),
            "partitions": [{"partition_index": number, "committed_offset": offset, "committed_metadata": "m", "committed_leader_epoch": 5}],
        }
        for name, number, offset in parts
    ]
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None, "retention_time": -1}
    return [part.error_code for topic in api.ask(8, version, **{**fields, **changes}, topics=topics).topics for part in topic.partitions]


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_commits(api, make_topic, committed, version: int) -> None:
    make_topic("t")
    assert ask(api, version, ("t", 0, 42)) == [0]
    assert committed("g", "t") == 42


@pytest.mark.parametrize("version", [2, 8, 9])
def test_partitions_that_do_not_exist_do_not_keep_others_from_being_kept(api, make_topic, committed, version: int) -> None:
    make_topic("t")
    assert ask(api, version, ("gone", 0, 1), ("t", 0, 7), ("t", 9, 1)) == [3, 0, 3]
    assert committed("g", "t") == 7


def test_an_unknown_topic_id(api, make_topic) -> None:
    make_topic("t")
    assert ask(api, 10, ("t", 0, 1), topic_id=uuid.uuid4()) == [100]


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_a_generation_of_a_group_that_is_not_there(api, make_topic, version: int, error: int) -> None:
    make_topic("t")
    assert ask(api, version, ("t", 0, 1), generation_id_or_member_epoch=3, member_id="m") == [error]


def test_s1_5_a_commit_of_an_older_generation_is_refused(api, make_topic, member) -> None:
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


def test_s2_1_offsets_are_records_of_the_offsets_topic_and_outlive_the_broker(make_api, make_topic, commit, committed) -> None:
    first = make_api()
    make_topic("t", of=first)
    commit("test-group", "t", 42, of=first)
    log = first.cluster.partitions.by_name("__consumer_offsets", 12).log
    (record,) = log.scan(0)
    assert record.key.hex() == "0001" + "000a" + b"test-group".hex() + "0001" + b"t".hex() + "00000000"
    assert committed("test-group", "t", of=make_api(files=first.files)) == 42
