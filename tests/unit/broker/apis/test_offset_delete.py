"""OffsetDelete: offsets of topics that the group does not read."""

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


def delete(api, group: str, *partitions: tuple[str, int]):
    topics = [{"name": name, "partitions": [{"partition_index": number}]} for name, number in partitions]
    return api.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)


def test_offsets_go_one_by_one(api, make_topic, commit, committed) -> None:
    make_topic("t")
    commit("g", "t", 1)
    answer = delete(api, "g", ("gone", 0), ("t", 0), ("t", 7))
    assert (answer.error_code, [topic.partitions[0].error_code for topic in answer.topics]) == (0, [3, 0, 3])
    assert committed("g", "t") == -1


def test_a_subscribed_topic_keeps_its_offsets(api, make_topic, member) -> None:
    make_topic("t")
    one = member()
    one.join()
    one.sync(assignments={one.member_id: b""})
    assert delete(api, "g", ("t", 0)).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_an_unknown_group(api, make_topic) -> None:
    make_topic("t")
    answer = delete(api, "unknown", ("t", 0))
    assert (answer.error_code, answer.topics) == (69, ())
