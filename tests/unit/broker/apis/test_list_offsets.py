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


def results(api, version: int, *parts: dict, isolation_level: int = 0):
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "current_leader_epoch": -1, **part} for part in parts]}]
    answer = api.ask(2, version, replica_id=-1, isolation_level=isolation_level, topics=topics, timeout=1000)
    return [(int(part.error_code), part.timestamp, part.offset, getattr(part, "leader_epoch", 0)) for part in answer.topics[0].partitions]


def transactional(filled, batch) -> None:
    """Offsets 8 and 9 are an open transaction's, 10 and 11 come after it."""
    log = filled.cluster.partitions.by_name("t", 0).log
    begun = batch(b"x", b"y", timestamp_ms=20000, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append(bytearray(begun), now_ms=0, from_client=False)
    log.append(bytearray(batch(b"z", b"z", timestamp_ms=30000)), now_ms=0, from_client=False)


@pytest.mark.parametrize("version", range(2, 12))
def test_who_reads_what_is_committed_sees_no_open_transaction(filled, batch, version: int) -> None:
    transactional(filled, batch)

    def found(timestamp: int) -> list[int]:
        return [results(filled, version, {"timestamp": timestamp}, isolation_level=level)[0][2] for level in (0, 1)]

    assert found(-1) == [12, 8]
    assert found(-2) == [0, 0]
    assert found(9001) == [5, 5]
    assert found(20000) == [8, -1]
    if version >= 7:
        assert found(-3) == [11, -1]


def test_nothing_is_found_below_the_logs_start(filled) -> None:
    filled.cluster.partitions.by_name("t", 0).log.delete_records(5)
    assert ask(filled, -2) == (0, -1, 5)
    assert ask(filled, -4) == (0, -1, 5)
    assert ask(filled, 0) == (0, 9001, 5)


def test_leader_epochs_are_checked_and_told(filled, batch) -> None:
    log = filled.cluster.partitions.by_name("t", 0).log
    log.leader_epoch = 4
    log.append(bytearray(batch(b"n", timestamp_ms=50000)), now_ms=0, from_client=False)
    for timestamp, expected in ((-1, (0, -1, 9, 4)), (-2, (0, -1, 0, 0)), (5001, (0, 5001, 1, 0)), (50000, (0, 50000, 8, 4))):
        assert results(filled, 11, {"timestamp": timestamp, "current_leader_epoch": 4}) == [expected]
    assert results(filled, 11, {"timestamp": -1, "current_leader_epoch": 3})[0][0] == 74
    assert results(filled, 11, {"timestamp": -1, "current_leader_epoch": 5})[0][0] == 75


def test_a_partition_that_is_named_twice(filled) -> None:
    assert results(filled, 11, {"timestamp": -1}, {"timestamp": -2}) == [(42, -1, -1, -1)]
