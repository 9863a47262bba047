"""DescribeTopicPartitions: pages by name, each from the cursor of the one before."""

import pytest

from ottla.broker.apis.describe_topic_partitions import API, PARTITIONS_MAX
from ottla.metadata.leadership import broker_stopped
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

FEW = 2


@pytest.fixture
def describe(api):
    def ask(*names: str, limit: int = PARTITIONS_MAX, cursor: tuple[str, int] | None = None):
        begins = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
        topics = [{"name": name} for name in names]
        return api.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=begins)

    return ask


def shown(answer) -> list[tuple[str, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics]


def errors(answer) -> list[int]:
    return [int(topic.error_code) for topic in answer.topics]


def test_a_topic_and_its_partitions(describe, make_topic) -> None:
    topic = make_topic("t", 2)
    (answered,) = describe("t").topics
    assert (answered.error_code, answered.topic_id.bytes, answered.is_internal) == (0, topic.topic_id, False)
    assert answered.topic_authorized_operations == 3576
    for number, each in enumerate(answered.partitions):
        assert (each.partition_index, each.leader_id, each.leader_epoch, each.error_code) == (number, 1, 0, 0)
        assert (each.replica_nodes, each.isr_nodes, each.offline_replicas) == ((1,), (1,), ())
        assert (each.eligible_leader_replicas, each.last_known_elr) == ((), ())


def test_pages_of_all_topics_follow_each_other(describe, make_topic) -> None:
    for name, partitions in (("b", 3), ("a", 1), ("c", 2)):
        make_topic(name, partitions)
    pages, cursor = [], None
    while True:
        answer = describe(limit=FEW, cursor=cursor)
        pages.append(shown(answer))
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert pages == [[("a", [0]), ("b", [0])], [("b", [1, 2])], [("c", [0, 1])]]


def test_a_page_has_a_partition_at_least_and_2000_at_most(describe, make_topic) -> None:
    make_topic("t", PARTITIONS_MAX + 1)
    for limit in (0, -1, 1):
        assert shown(describe("t", limit=limit)) == [("t", [0])]
    answer = describe("t", limit=2**31 - 1)
    assert shown(answer) == [("t", list(range(PARTITIONS_MAX)))]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", PARTITIONS_MAX)


def test_names_are_answered_once_in_their_order(describe, make_topic) -> None:
    make_topic("t")
    answer = describe("z", "t", "no spaces", "t", "a")
    assert [topic.name for topic in answer.topics] == ["a", "no spaces", "t", "z"]
    assert errors(answer) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_topics_behind_a_full_page_wait_for_the_next_one_whether_they_exist_or_not(describe, make_topic) -> None:
    make_topic("t")
    answer = describe("t", "z", limit=1)
    assert shown(answer) == [("t", [0])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("z", 0)


@pytest.mark.parametrize(
    ("names", "cursor", "expected"),
    [
        (("a", "t", "z"), ("t", 1), [("t", [1]), ("z", [])]),
        (("a", "t", "z"), ("t", 9), [("t", []), ("z", [])]),
        ((), ("s", 1), [("t", [0, 1])]),
        ((), ("u", 0), []),
    ],
)
def test_a_cursor_says_where_to_begin(describe, make_topic, names, cursor, expected) -> None:
    make_topic("t", 2)
    assert shown(describe(*names, cursor=cursor)) == expected


@pytest.mark.parametrize("cursor", [("t", -1), ("s", 0), ("zz", 0)])
def test_a_cursor_that_is_in_none_of_the_topics_is_refused(describe, make_topic, cursor) -> None:
    make_topic("t")
    answer = describe("t", "a", cursor=cursor)
    assert [topic.name for topic in answer.topics] == ["t", "a"]
    assert errors(answer) == [ErrorCode.INVALID_REQUEST] * 2


def test_what_is_offline_after_a_broker_has_stopped(one_api, metadata) -> None:
    metadata.live_ids.discard(1)
    for record in broker_stopped(metadata, 1):
        metadata.replay(record)
    asked = {"topics": [{"name": "t"}], "response_partition_limit": 10, "cursor": None}
    first, _ = one_api(API, cluster_metadata=metadata).ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, **asked).topics[0].partitions
    assert (first.error_code, first.leader_id, first.replica_nodes, first.offline_replicas) == (0, -1, (1,), (1,))
