"""ListOffsets: the ends, a point in time, the largest timestamp."""

import asyncio

import pytest

from ottla.broker.fetch.partition_reading import TimestampLookups
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record_checks import find_timestamp
from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def filled(api, make_topic, batch):
    make_topic("t")
    for timestamp_ms in (5000, 1000, 9000, 2000):
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(b"a", b"b", timestamp_ms=timestamp_ms)}]}]
        api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
    return api


def ask(api, timestamp: int, version: int = 11, topic: str = "t", partition: int = 0):
    part = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [part]}]
    (result,) = api.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=topics, timeout=1000).topics[0].partitions
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
    answer = api.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation_level, topics=topics, timeout=1000)
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


def later(filled, waiting_executor, timestamp: int = 9001, isolation_level: int = 0):
    """A request that waits for the worker thread."""
    filled.cluster.timestamp_lookups.close()
    filled.use(timestamp_lookups=TimestampLookups(find_timestamp, waiting_executor))
    part = {"partition_index": 0, "current_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [{**part, "timestamp": timestamp}, {**part, "partition_index": 1, "timestamp": -1}]}]
    waiting = filled.start(ApiKey.LIST_OFFSETS, 11, replica_id=-1, isolation_level=isolation_level, topics=topics, timeout=1000)
    filled.step()
    return waiting


def answered(filled, waiting_executor, waiting) -> tuple[int, int, int]:
    filled.step()
    waiting_executor.run()
    first, second = filled.finish(ApiKey.LIST_OFFSETS, 11, waiting).topics[0].partitions
    assert int(second.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return int(first.error_code), first.timestamp, first.offset


@pytest.mark.parametrize("timestamp", [9001, -3])
def test_timestamps_are_looked_up_in_a_worker_thread(filled, waiting_executor, timestamp: int) -> None:
    waiting = later(filled, waiting_executor, timestamp)
    assert not waiting.done()
    assert answered(filled, waiting_executor, waiting) == (0, 9001, 5)


def test_the_ends_are_answered_at_once(filled, waiting_executor) -> None:
    for timestamp in (-1, -2, -4, -5, -6):
        assert later(filled, waiting_executor, timestamp).done()
    assert waiting_executor.jobs == []


def test_an_empty_log_has_nothing_to_look_up(api, make_topic, waiting_executor) -> None:
    make_topic("t")
    assert later(api, waiting_executor, -3).done()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_is_deleted_meanwhile(filled, make_topic, waiting_executor, is_made_again: bool) -> None:
    waiting = later(filled, waiting_executor)
    assert filled.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1000).responses[0].error_code == ErrorCode.NONE
    if is_made_again:
        make_topic("t")
    assert answered(filled, waiting_executor, waiting) == (0 if is_made_again else 3, -1, -1)


def test_a_reader_of_what_is_committed_waits_too(filled, batch, waiting_executor) -> None:
    transactional(filled, batch)
    assert answered(filled, waiting_executor, later(filled, waiting_executor, 20000, isolation_level=1)) == (0, -1, -1)
    assert answered(filled, waiting_executor, later(filled, waiting_executor, 20000)) == (0, 20000, 8)


def test_a_log_that_is_damaged(filled, waiting_executor) -> None:
    waiting = later(filled, waiting_executor)
    path = "t-0/00000000000000000000.log"
    data = bytearray(filled.files.read_all(path))
    (position,) = [at for at, header in split_batches(data) if header.base_offset == 4]
    data[position + 65] ^= 1
    filled.files.replace(path, data)
    assert answered(filled, waiting_executor, waiting) == (56, -1, -1)


def test_a_client_that_has_gone_is_looked_up_no_more(filled, waiting_executor) -> None:
    filled.cluster.timestamp_lookups.close()
    filled.use(timestamp_lookups=TimestampLookups(find_timestamp, waiting_executor))
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -3}
    asked = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": [part]}], "timeout": 1000}
    answers: list[object] = []

    async def begin():
        found, request = filled.dispatcher.read_request(memoryview(filled.encode(2, 11, asked)), filled.session)
        request.send = answers.append
        filled.dispatcher.dispatch(found, request)
        await asyncio.sleep(0)
        return request

    request = filled.runner.run(begin())
    request.on_disconnect()
    filled.step()
    ((future, _),) = waiting_executor.jobs
    assert (future.cancelled(), answers) == (True, [])
