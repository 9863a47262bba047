"""ListOffsets: the ends, a point in time, the largest timestamp."""

import pytest


@pytest.fixture
def filled(api, make_topic, batch):
    make_topic("t")
    for timestamp_ms in (5000, 1000, 9000, 2000):
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"a", b"b", timestamp_ms=timestamp_ms)}]}]
        api.ask(0, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
    return api


def ask(api, timestamp: int, version: int = 11, topic: str = "t", partition: int = 0):
    part = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [part]}]
    (result,) = api.ask(2, version, replica_id=-1, isolation_level=0, topics=topics, timeout=1000).topics[0].partitions
    return int(result.error_code), result.timestamp, result.offset


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_knows_the_ends(filled, version: int) -> None:
    assert ask(filled, -1, version) == (0, -1, 8)
    assert ask(filled, -2, version) == (0, -1, 0)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 5000, 0)), (5000, (0, 5000, 0)), (5001, (0, 5001, 1)), (5002, (0, 9000, 4)), (9001, (0, 9001, 5)), (9002, (0, -1, -1))],
)
def test_the_first_record_at_or_after_a_time(filled, timestamp: int, found) -> None:
    assert ask(filled, timestamp) == found


def test_the_largest_timestamp(filled) -> None:
    assert ask(filled, -3) == (0, 9001, 5)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_a_question_that_the_version_does_not_know(filled, timestamp: int, version: int) -> None:
    assert ask(filled, timestamp, version)[0] == 35


def test_tiers_that_there_are_not(filled) -> None:
    assert [ask(filled, -4), ask(filled, -5), ask(filled, -6)] == [(0, -1, 0), (0, -1, -1), (0, -1, -1)]


def test_what_is_not_there(api, make_topic) -> None:
    make_topic("t")
    assert ask(api, -1, topic="gone")[0] == 3
    assert ask(api, -1, partition=5)[0] == 3
    assert ask(api, -3) == (0, -1, -1)
