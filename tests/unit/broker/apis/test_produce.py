"""Produce: what is appended, what is refused, and that nothing is answered for acks=0."""

import asyncio
import datetime
import io
import uuid
from functools import partial
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from ottla.broker.apis import produce as produce_api
from ottla.broker.apis.produce import (
    PARTITIONS_MAX,
    PartitionResult,
    TopicRecords,
    encode_produce_response,
    read_topics,
    refusal_of_all,
    refusal_of_partition,
)
from ottla.broker.network.request import Endpoint
from ottla.broker.partitions import batch_reading
from ottla.broker.partitions.batch_reading import LOOP_BYTES_MAX, BatchReading
from ottla.broker.partitions.partition import Partition
from ottla.log.append import Appended, LogRefusal
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, read_header, seal
from ottla.protocol.records.compression import ZSTD, Codec
from ottla.protocol.records.record_checks import check_records
from ottla.protocol.wire import messages
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import Reader
from tests.support.kit.sessions import client_session


def fields(records: bytes, topic="t", acks: int = -1, version: int = 9, partition: int = 0, transactional_id: str | None = None) -> dict:
    name = {"topic_id": topic} if version >= 13 else {"name": topic}
    data = [{**name, "partition_data": [{"index": partition, "records": records}]}]
    return {"transactional_id": transactional_id, "acks": acks, "timeout": 1000, "topic_data": data}


def result(answer):
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(api, make_topic, batch, version: int) -> None:
    topic = make_topic("t")
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    for base_offset in (0, 2):
        answer = result(api.ask(ApiKey.PRODUCE, version, **fields(batch(b"a", b"b"), name, version=version)))
        assert (answer.error_code, answer.base_offset) == (0, base_offset)
    log = api.cluster.partitions.by_name("t", 0).log
    assert [(record.offset, record.value) for record in log.read_records(0)] == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]


@pytest.mark.parametrize(("topic", "partition", "error"), [("gone", 0, 3), ("t", 9, 3), ("t", -1, 3)])
def test_what_is_not_there(api, make_topic, batch, topic: str, partition: int, error: int) -> None:
    make_topic("t")
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), topic, partition=partition))).error_code == error


def test_an_unknown_topic_id(api, batch) -> None:
    assert result(api.ask(ApiKey.PRODUCE, 13, **fields(batch(b"x"), uuid.uuid4(), version=13))).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("name", ["__consumer_offsets", "__ottla_group_events"])
def test_a_clients_produce_to_an_internal_topic_is_refused_and_nothing_crashes(api, make_topic, batch, name: str) -> None:
    make_topic(name, 3)
    answer = result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), name)))
    assert (answer.error_code, answer.error_message) == (17, f"Cannot append to internal topic {name}")


def test_a_broken_batch_is_refused(api, make_topic, batch) -> None:
    make_topic("t")
    broken = bytearray(batch(b"value"))
    broken[-3] ^= 1
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(bytes(broken)))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize(("acks", "transactional_id", "error"), [(2, None, 21), (-1, "tx", 0), (-1, "", 0)])
def test_bad_acks_and_transactional_ids(api, make_topic, batch, acks: int, transactional_id: str | None, error: int) -> None:
    make_topic("t")
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), acks=acks, transactional_id=transactional_id))).error_code == error


def test_acks_0_is_not_answered_and_an_error_closes_the_connection(api, make_topic, batch) -> None:
    make_topic("t")
    assert api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), acks=0)) is None
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
    with pytest.raises(PeerError):
        api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), "gone", acks=0))


def test_records_that_end_before_their_length_are_the_peers_fault(api, make_topic, batch) -> None:
    make_topic("t")
    frame = api.encode(0, 3, fields(batch(b"x"), version=3))

    found, request = api.dispatcher.read_request(memoryview(frame[:-5]), api.session)
    with pytest.raises(PeerError):
        api.dispatcher.dispatch(found, request)


@pytest.mark.parametrize("version", [7, 8, 12])
def test_a_record_without_a_key_is_named_in_a_compacted_topic(api, make_topic, batch, version: int) -> None:
    make_topic("t", configs={"cleanup.policy": "compact"})
    answer = result(api.ask(ApiKey.PRODUCE, version, **fields(batch(b"a", b"b"), version=version)))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    if version >= 8:
        assert [error.batch_index for error in answer.record_errors] == [0, 1]


def attributes_of(records: bytes, attributes: int) -> bytes:
    """The batch with these in the low byte of its attributes, sealed."""
    changed = bytearray(records)
    changed[22] = attributes
    seal(changed)
    return bytes(changed)


def results(answer):
    return {each.index: (int(each.error_code), each.base_offset) for each in answer.responses[0].partition_responses}


def two_partitions(first: bytes, second: bytes, **given) -> dict:
    asked = fields(first, **given)
    asked["topic_data"][0]["partition_data"].append({"index": 1, "records": second})
    return asked


@pytest.mark.parametrize("version", [3, 9, 12])
def test_transactional_records_without_a_transactional_id_refuse_the_whole_request(api, make_topic, batch, version: int) -> None:
    make_topic("t", 2)
    transactional = attributes_of(batch(b"x"), 0x10)
    for asked in (two_partitions(transactional, batch(b"y")), two_partitions(batch(b"y"), transactional)):
        assert results(api.ask(ApiKey.PRODUCE, version, **asked)) == {0: (53, -1), 1: (53, -1)}
    # A batch that is not all there is none: the other partition is judged alone.
    assert results(api.ask(ApiKey.PRODUCE, version, **two_partitions(transactional[:-1], batch(b"y")))) == {0: (87, -1), 1: (0, 0)}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_transactional_records_with_a_transactional_id_are_of_an_unknown_producer(api, make_topic, batch, version: int) -> None:
    make_topic("t", 2)
    asked = two_partitions(attributes_of(batch(b"x"), 0x10), batch(b"y"), transactional_id="tx")
    assert results(api.ask(ApiKey.PRODUCE, version, **asked)) == {0: (49, -1), 1: (0, 0)}


@pytest.mark.parametrize("version", [3, 6, 7, 9])
def test_an_unknown_codec(api, make_topic, batch, version: int) -> None:
    make_topic("t", 2)
    asked = two_partitions(attributes_of(batch(b"x"), 5), batch(b"y"))
    assert results(api.ask(ApiKey.PRODUCE, version, **asked)) == {0: (-1, -1), 1: (0, 0) if version >= 7 else (-1, -1)}


@pytest.mark.parametrize(("at", "value"), [(16, 3), (11, 3), (8, 255)])
def test_bytes_that_cannot_be_walked_refuse_the_whole_request(api, make_topic, batch, at: int, value: int) -> None:
    make_topic("t", 2)
    broken = bytearray(batch(b"x"))
    broken[at] = value
    for records in (bytes(broken), bytes(broken[:20])):
        assert results(api.ask(ApiKey.PRODUCE, 9, **two_partitions(batch(b"y"), records))) == {0: (2, -1), 1: (2, -1)}


def test_zstandard_came_with_version_7(api, make_topic) -> None:
    make_topic("t")
    records = bytes(encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")], codec=ZSTD))
    assert [result(api.ask(ApiKey.PRODUCE, version, **fields(records))).error_code for version in (6, 7)] == [76, 0]


def test_bad_acks_come_behind_what_is_wrong_with_a_partition(api, make_topic, batch) -> None:
    make_topic("t", 2)
    make_topic("__consumer_offsets", 1)
    assert results(api.ask(ApiKey.PRODUCE, 9, **two_partitions(batch(b"x"), b"", acks=2))) == {0: (21, -1), 1: (87, -1)}
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), "gone", acks=2))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), partition=9, acks=2))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), "__consumer_offsets", acks=2))).error_code
        == ErrorCode.INVALID_REQUIRED_ACKS
    )


@pytest.mark.parametrize(
    ("records", "error", "log_start"),
    [
        (lambda good: good[:-1], 87, -1),
        (lambda good: good * 2, 87, -1),
        (lambda good: b"\1" + good[1:], 87, 0),
        (lambda good: good[:-1] + b"\xff", 2, -1),
        (lambda good: attributes_of(good, 0x20), 87, 0),
        (lambda good: attributes_of(good, 7), -1, 0),
        (lambda good: bytes(encode_batch([Record(0, 0, None, bytes(2000))])), 10, -1),
        (lambda good: bytes(encode_batch([Record(0, 2_000_000_000_000, None, b"")])), 32, 0),
        (lambda good: bytes(encode_batch([Record(0, 0, None, b"")], producer_id=1, producer_epoch=0)), 87, 0),
    ],
)
def test_where_a_refusal_says_where_the_log_begins(api, make_topic, batch, records, error: int, log_start: int) -> None:
    make_topic("t", configs={"max.message.bytes": "1000"})
    answer = result(api.ask(ApiKey.PRODUCE, 9, **fields(records(batch(b"value")))))
    assert (answer.error_code, answer.log_start_offset) == (error, log_start)
    assert answer.error_message


def test_records_at_fault_are_named_with_their_time(api, make_topic) -> None:
    make_topic("t", configs={"message.timestamp.before.max.ms": "1000"})
    times = (api.now_ms, api.now_ms - 1001, api.now_ms + 3_600_001)
    records = bytes(encode_batch([Record(number, ms, None, b"") for number, ms in enumerate(times)]))
    answer = result(api.ask(ApiKey.PRODUCE, 9, **fields(records)))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 2]


def test_the_topics_codec_is_what_consumers_get(api, make_topic, batch) -> None:
    make_topic("t", configs={"compression.type": "zstd"})
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"a", b"b")))).error_code == ErrorCode.NONE
    log = api.cluster.partitions.by_name("t", 0).log
    stored = log.read(0, 10_000)
    assert read_header(stored).codec is ZSTD
    assert [record.value for record in log.read_records(0)] == [b"a", b"b"]


class Durable:
    """Appends whose acknowledgment waits for the futures that were handed out here, by partition."""

    def __init__(self, monkeypatch) -> None:
        self.futures: dict[int, list[asyncio.Future[None]]] = {}
        append = Partition.append

        def append_and_wait(partition, batch, *, is_acknowledged: bool = True, **given):
            outcome, _ = append(partition, batch, is_acknowledged=False, **given)
            return outcome, self._hand_out(partition) if is_acknowledged else None

        monkeypatch.setattr(Partition, "append", append_and_wait)

    def _hand_out(self, partition: Partition) -> "asyncio.Future[None] | None":
        if partition.name.partition == 2:
            return None
        future = asyncio.get_running_loop().create_future()
        self.futures.setdefault(partition.name.partition, []).append(future)
        return future


def turn(api) -> None:
    """A few turns of the loop."""

    async def turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    api.runner.run(turns())


def three_partitions(batch, **given) -> dict:
    asked = two_partitions(batch(b"0"), batch(b"1"), **given)
    asked["topic_data"][0]["partition_data"].append({"index": 2, "records": batch(b"2")})
    return asked


def test_the_answer_waits_until_all_partitions_are_durable(api, make_topic, batch, monkeypatch) -> None:
    make_topic("t", 3)
    durable = Durable(monkeypatch)
    answer = api.start(ApiKey.PRODUCE, 9, **three_partitions(batch))
    turn(api)
    durable.futures[1][0].set_result(None)
    turn(api)
    assert not answer.done()
    durable.futures[0][0].set_result(None)
    assert results(api.finish(ApiKey.PRODUCE, 9, answer)) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}


def test_a_failed_sync_is_the_result_of_its_partition_alone(api, make_topic, batch, monkeypatch) -> None:
    make_topic("t", 3)
    durable = Durable(monkeypatch)
    answer = api.start(ApiKey.PRODUCE, 9, **three_partitions(batch, acks=1))
    durable.futures[0][0].set_exception(StorageError("the disk is on fire"))
    turn(api)
    assert not answer.done()
    durable.futures[1][0].set_result(None)
    found = api.finish(ApiKey.PRODUCE, 9, answer)
    assert results(found) == {0: (56, -1), 1: (0, 0), 2: (0, 0)}
    first = found.responses[0].partition_responses[0]
    assert (first.error_message, first.log_start_offset) == ("the disk is on fire", -1)


def test_acks_0_waits_for_no_sync(api, make_topic, batch, monkeypatch) -> None:
    make_topic("t")
    durable = Durable(monkeypatch)
    assert api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x"), acks=0)) is None
    assert not durable.futures


def test_flush_messages_is_kept_before_the_answer(api, make_topic, batch) -> None:
    make_topic("t", configs={"flush.messages": "1"})
    assert result(api.ask(ApiKey.PRODUCE, 9, **fields(batch(b"x")))).error_code == ErrorCode.NONE
    log = api.cluster.partitions.by_name("t", 0).log
    assert log.recovery_point == log.log_end_offset == 1


def test_a_log_that_takes_no_records_says_why(api, make_topic, batch, monkeypatch) -> None:
    make_topic("t", 2)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("no space left on the device")

    partition = api.cluster.partitions.by_name("t", 1)
    monkeypatch.setattr(
        PartitionLog, "append", lambda log, *given, **named: fail() if log is partition.log else append(log, *given, **named)
    )
    answer = api.ask(ApiKey.PRODUCE, 9, **two_partitions(batch(b"x"), batch(b"y")))
    assert results(answer) == {0: (0, 0), 1: (56, -1)}
    second = answer.responses[0].partition_responses[1]
    assert (second.error_message, second.log_start_offset) == ("no space left on the device", -1)


append = PartitionLog.append


def test_who_waits_for_a_sync_of_a_topic_that_is_deleted_gets_an_error(api, make_topic, batch) -> None:
    make_topic("t", configs={"flush.messages": "1"})

    async def produce_and_delete() -> "asyncio.Future[bytes]":
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        kind, request = api.dispatcher.read_request(memoryview(api.encode(0, 9, fields(batch(b"x")))), api.session)
        request.send = lambda parts: answer.set_result(b"".join(parts))
        api.dispatcher.dispatch(kind, request)
        assert not answer.done()
        assert api.cluster.topic_deletion.delete("t") is None
        return answer

    answer = api.runner.run(produce_and_delete())
    assert result(api.finish(ApiKey.PRODUCE, 9, answer)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_it_appends_to_what_its_broker_leads(one_api, metadata, partitions, brokers, batch) -> None:
    api = one_api(
        produce_api.API,
        background=None,
        batch_reading=None,
        clock=lambda: 1_700_000_000_000,
        cluster_metadata=metadata,
        node=brokers.nodes[1],
        partitions=partitions,
        transactional_ids=None,
    )
    api.session = client_session(partial(brokers.endpoint, "PLAINTEXT"))
    records = [{"index": number, "records": batch(b"v")} for number in (0, 1, 2)]
    asked = {"acks": -1, "timeout": 1000, "transactional_id": None, "topic_data": [{"name": "t", "partition_data": records}]}
    answer = api.ask(ApiKey.PRODUCE, 10, **asked)
    assert [(part.error_code, part.base_offset) for part in answer.responses[0].partition_responses] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert [(each.node_id, each.host) for each in answer.node_endpoints] == [(2, "b")]
    assert partitions.by_name("t", 0).log.log_end_offset == 1


# Produce of batches whose records are read in a worker thread: the request waits, and the world may change meanwhile.

NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact"}


def large(value: bytes = b"v", key: bytes | None = b"k", **given: Any) -> bytes:
    """A small batch of many bytes."""
    records = [Record(0, NOW_MS, key, value), Record(1, NOW_MS, b"filler", bytes(LOOP_BYTES_MAX))]
    return bytes(encode_batch(records, codec=ZSTD, **given))


def request_fields(*batches: tuple[int, bytes], topic: Any = "t", acks: int = -1, version: int = 9) -> dict[str, Any]:
    name = {"topic_id": topic} if version >= 13 else {"name": topic}
    data = [{**name, "partition_data": [{"index": index, "records": records} for index, records in batches]}]
    return {"transactional_id": None, "acks": acks, "timeout": 1000, "topic_data": data}


@pytest.fixture
def executor(api, waiting_executor):
    """The worker thread, which runs when the test says so."""
    api.cluster.batch_reading.close()
    api.use(batch_reading=BatchReading(check_records, waiting_executor))
    return waiting_executor


def values(api, number: int = 0) -> list[bytes | None]:
    return [record.value for record in api.cluster.partitions.by_name("t", number).log.read_records(0) if record.key != b"filler"]


def all_results(answer) -> list[tuple[int, int, int]]:
    return [(part.index, int(part.error_code), part.base_offset) for part in answer.responses[0].partition_responses]


def finished(api, executor, waiting, version: int = 9):
    while not waiting.done():
        executor.run()
        api.step()
    return all_results(api.finish(ApiKey.PRODUCE, version, waiting))


@pytest.mark.parametrize("version", range(3, 14))
def test_the_request_waits_until_the_records_are_read(api, make_topic, executor, version: int) -> None:
    topic = make_topic("t", configs=COMPACTED)
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    key = ZSTD if version >= 7 else 0
    batch = large() if key else bytes(encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"filler", bytes(LOOP_BYTES_MAX))]))
    waiting = api.start(ApiKey.PRODUCE, version, **request_fields((0, batch), topic=name, version=version))
    api.step()
    assert (waiting.done(), values(api)) == (False, [])
    assert finished(api, executor, waiting, version) == [(0, 0, 0)]
    assert values(api) == [b"v"]


def test_all_that_follows_in_the_request_waits_too_and_order_is_kept(api, make_topic, executor, batch) -> None:
    make_topic("t", 3, configs={"message.timestamp.before.max.ms": "1000000000000"})
    small = bytes(encode_batch([Record(0, NOW_MS, b"k", b"small")]))
    waiting = api.start(
        ApiKey.PRODUCE, 9, **request_fields((2, small), (0, large(b"1")), (1, small), (0, small), (0, large(b"2")), (7, small))
    )
    api.step()
    assert [values(api, number) for number in range(3)] == [[], [], [b"small"]]
    assert len(executor.jobs) == 1
    executor.run()
    api.step()
    assert [values(api, number) for number in range(3)] == [[b"1", b"small"], [b"small"], [b"small"]]
    assert finished(api, executor, waiting) == [(2, 0, 0), (0, 0, 0), (1, 0, 0), (0, 0, 2), (0, 0, 3), (7, 3, -1)]
    assert values(api) == [b"1", b"small", b"2"]


def test_refused_records_are_named_and_those_behind_them_are_appended(api, make_topic, executor) -> None:
    make_topic("t", 2, configs=COMPACTED)
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large(key=None)), (1, large())))
    api.step()
    for _ in range(2):
        executor.run()
        api.step()
    first, second = api.finish(ApiKey.PRODUCE, 9, waiting).responses[0].partition_responses
    assert (int(first.error_code), [error.batch_index for error in first.record_errors]) == (87, [0])
    assert (int(second.error_code), second.base_offset) == (0, 0)


def test_the_frames_bytes_may_be_used_again(api, make_topic, executor) -> None:
    make_topic("t", 2, configs=COMPACTED)

    async def send() -> "asyncio.Future[bytes]":
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        frame = api.encode(0, 9, request_fields((0, large(b"1")), (1, large(b"2"))))
        found, request = api.dispatcher.read_request(memoryview(frame), api.session)
        request.send = lambda parts: answer.set_result(b"".join(parts))
        api.dispatcher.dispatch(found, request)
        frame[:] = bytes(len(frame))
        return answer

    assert finished(api, executor, api.runner.run(send())) == [(0, 0, 0), (1, 0, 0)]
    assert (values(api, 0), values(api, 1)) == ([b"1"], [b"2"])


@pytest.mark.parametrize(("version", "error"), [(9, 3), (13, 100)])
@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_is_deleted_meanwhile(api, make_topic, executor, version: int, error: int, is_made_again: bool) -> None:
    topic = make_topic("t", configs=COMPACTED)
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    waiting = api.start(ApiKey.PRODUCE, version, **request_fields((0, large()), topic=name, version=version))
    api.step()
    assert api.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["t"], timeout=1000).responses[0].error_code == ErrorCode.NONE
    if is_made_again:
        make_topic("t", configs=COMPACTED)
    assert finished(api, executor, waiting, version) == [(0, error, -1)]
    if is_made_again:
        assert values(api) == []


def alter(api, name: str, value: str) -> None:
    configs = [{"name": name, "config_operation": 0, "value": value}]
    answer = api.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[{"resource_type": 2, "resource_name": "t", "configs": configs}], validate_only=False
    )
    assert answer.responses[0].error_code == ErrorCode.NONE


def test_settings_that_change_meanwhile_hold(api, make_topic, executor) -> None:
    make_topic("t", configs={"message.timestamp.before.max.ms": "1000000000000"})
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large(key=None)), (0, large(b"2"))))
    api.step()
    executor.run()
    alter(api, "cleanup.policy", "compact")
    assert finished(api, executor, waiting) == [(0, 87, -1), (0, 0, 0)]


def test_settings_that_ask_for_nothing_any_more(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large(key=None))))
    api.step()
    alter(api, "cleanup.policy", "delete")
    assert finished(api, executor, waiting) == [(0, 0, 0)]


def test_a_partition_that_moves_meanwhile(make_api, make_topic, waiting_executor) -> None:
    api = make_api(brokers=2)
    topic = make_topic("t", 1, configs=COMPACTED, of=api)
    api.on(topic.leaders[0])
    other = 3 - topic.leaders[0]
    api.cluster.batch_reading.close()
    api.use(batch_reading=BatchReading(check_records, waiting_executor))
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large())))
    api.step()

    async def move() -> None:
        api.cluster.leadership.move("t", 0, other)

    api.runner.run(move())
    assert finished(api, waiting_executor, waiting) == [(0, 6, -1)]


def test_a_producer_that_repeats_itself_while_it_waits(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    batch = large(producer_id=7, producer_epoch=0, base_sequence=0)
    first, again = (api.start(ApiKey.PRODUCE, 9, **request_fields((0, batch))) for _ in range(2))
    api.step()
    assert finished(api, executor, first) == finished(api, executor, again) == [(0, 0, 0)]
    assert values(api) == [b"v"]


def test_acks_0_is_not_answered_after_reading_either_and_an_error_closes_the_connection(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large()), acks=0))
    api.step()
    assert (waiting.done(), values(api)) == (False, [])
    executor.run()
    assert api.finish(ApiKey.PRODUCE, 9, waiting) is None
    assert values(api) == [b"v"]
    failed: list[Exception] = []
    send(api, request_fields((0, large(key=None)), acks=0)).fail = failed.append
    api.step()
    executor.run()
    api.step()
    assert [type(error) for error in failed] == [PeerError]


def send(api, asked: dict[str, Any]):
    """Sends a request that a test may go on with."""

    async def begin():
        found, request = api.dispatcher.read_request(memoryview(api.encode(0, 9, asked)), api.session)
        request.send = lambda _parts: None
        api.dispatcher.dispatch(found, request)
        return request

    return api.runner.run(begin())


def test_a_client_that_has_gone_is_appended_all_the_same(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    request = send(api, request_fields((0, large())))
    api.step()
    assert api.cluster.batch_reading.waiting_bytes > 0
    request.on_disconnect()
    executor.run()
    api.step()
    assert (values(api), api.cluster.batch_reading.waiting_bytes) == ([b"v"], 0)


def test_the_gone_do_not_wait_beyond_a_bound(api, make_topic, executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.apis.produce.ABANDONED_BYTES_MAX", 0)
    assert batch_reading.ABANDONED_BYTES_MAX > 1 << 20
    make_topic("t", configs=COMPACTED)
    request = send(api, request_fields((0, large())))
    api.step()
    request.on_disconnect()
    api.step()
    executor.run()
    api.step()
    assert (values(api), api.cluster.batch_reading.waiting_bytes) == ([], 0)


def test_the_answer_waits_for_the_disk_where_the_topic_asks_for_it(api, make_topic, executor) -> None:
    make_topic("t", configs={**COMPACTED, "flush.messages": "1"})
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large())))
    api.step()
    executor.run()
    assert all_results(api.finish(ApiKey.PRODUCE, 9, waiting)) == [(0, 0, 0)]
    log = api.cluster.partitions.by_name("t", 0).log
    assert log.recovery_point == log.log_end_offset == 2


def test_another_codec_is_made_in_the_worker_thread(api, make_topic, executor) -> None:
    make_topic("t", configs={"compression.type": "gzip"})
    waiting = api.start(ApiKey.PRODUCE, 9, **request_fields((0, large())))
    api.step()
    assert not waiting.done()
    assert finished(api, executor, waiting) == [(0, 0, 0)]
    (header, _), *_ = api.cluster.partitions.by_name("t", 0).log.read_batches(0)
    assert header.codec.name == "GZIP"


def test_a_mistake_of_ours_closes_the_connection(api, make_topic, executor, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic("t", configs=COMPACTED)
    failed: list[Exception] = []
    send(api, request_fields((0, large()))).fail = failed.append

    def broken(*_given: Any) -> Any:
        raise ValueError("a mistake")

    monkeypatch.setattr(api.cluster.batch_reading, "_check", broken)
    api.step()
    executor.run()
    api.step()
    assert [str(error) for error in failed] == ["a mistake"]


def test_small_batches_are_appended_at_once(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    small = bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")], codec=ZSTD))
    assert all_results(api.ask(ApiKey.PRODUCE, 9, **request_fields((0, small)))) == [(0, 0, 0)]
    assert executor.jobs == []


@pytest.fixture
def after_start(make_api, make_topic, held):
    """A broker on a directory with topic `t`, which is not open yet."""
    before = make_api()
    make_topic("t", of=before)
    before.ask(ApiKey.PRODUCE, 9, **request_fields((0, bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")])))))

    async def close() -> None:
        before.cluster.close()

    before.runner.run(close())
    return make_api(files=before.files, opening_executor=held)


@pytest.mark.parametrize("acks", [0, -1])
def test_a_request_that_waits_for_an_opening_counts_as_memory(after_start, held, acks: int) -> None:
    request = send(after_start, request_fields((0, bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")]))), acks=acks))
    after_start.step()
    assert (request.held_bytes > 60, request.is_one_way) == (True, acks == 0)
    held.run()
    after_start.step()
    assert after_start.cluster.partitions.by_name("t", 0).log.log_end_offset == 2


# A Produce request taken apart, and what refuses all of it or one partition before a log is asked.

RECORDS = [Record(0, 1_700_000_000_000, b"k", b"v")]
GOOD = bytes(encode_batch(RECORDS))
TRANSACTIONAL = bytes(encode_batch(RECORDS, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0))
TOPIC = Topic(name="t", topic_id=bytes(16), leaders=[1])
INTERNAL = Topic(name="__consumer_offsets", topic_id=bytes(16), leaders=[1])


def with_byte(at: int, value: int) -> bytes:
    return GOOD[:at] + bytes([value]) + GOOD[at + 1 :]


def test_records_are_views_into_the_request() -> None:
    body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\5" + b"\0\0\0\3abc" + b"\0\0\0\6" + b"\xff\xff\xff\xff"
    read = Reader(memoryview(body))
    (topic,), _ = read_topics(read, 3, {"t": TOPIC}, {})
    assert (topic.key, topic.topic) == ("t", TOPIC)
    assert [(number, bytes(records)) for number, records in topic.partitions] == [(5, b"abc"), (6, b"")]
    assert topic.partitions[0][1].obj is body
    assert read.at == len(body)
    for end in range(len(body)):
        with pytest.raises(PeerError):
            read_topics(Reader(memoryview(body[:end])), 3, {}, {})


def test_topics_by_id() -> None:
    topic_id = bytes(range(16))
    body = b"\2" + topic_id + b"\2" + b"\0\0\0\7" + b"\4abc" + b"\0" + b"\0"
    for known in ({topic_id: TOPIC}, {}):
        (topic,), _ = read_topics(Reader(memoryview(body), flexible=True), 13, {}, known)
        assert (topic.key, topic.topic) == (topic_id, known.get(topic_id))
        assert [(number, bytes(records)) for number, records in topic.partitions] == [(7, b"abc")]


@pytest.mark.parametrize(
    ("name", "records", "version", "transactional_id", "answer"),
    [
        ("sound", GOOD, 9, None, None),
        ("nothing", b"", 9, None, None),
        ("a piece", GOOD[:40], 9, None, None),
        ("transactional", TRANSACTIONAL, 9, None, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactional, damaged", TRANSACTIONAL[:-1] + b"!", 9, None, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ("transactional, a piece", TRANSACTIONAL[:-1], 9, None, None),
        ("transactional, behind another", GOOD + TRANSACTIONAL, 9, None, None),
        ("transactional, with an id", TRANSACTIONAL, 9, "tx", None),
        ("transactional, with an empty id", TRANSACTIONAL, 9, "", None),
        ("format 1", with_byte(16, 1), 9, None, None),
        ("format 3", with_byte(16, 3), 9, None, "CORRUPT_MESSAGE"),
        ("format 3, seventeen bytes of it", with_byte(16, 3)[:17], 9, None, "CORRUPT_MESSAGE"),
        ("length 3", with_byte(11, 3), 9, None, "CORRUPT_MESSAGE"),
        ("length -1", GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:], 9, None, "CORRUPT_MESSAGE"),
        ("length 2^31-1", GOOD[:8] + b"\x7f\xff\xff\xff" + GOOD[12:], 9, None, "UNKNOWN_SERVER_ERROR"),
        ("codec 5", with_byte(22, 5), 7, None, None),
        ("codec 5 of old", with_byte(22, 5), 6, None, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_what_refuses_the_whole_request(name: str, records: bytes, version: int, transactional_id: str | None, answer: str | None) -> None:
    topics = [TopicRecords("t", TOPIC, [(0, memoryview(GOOD)), (1, memoryview(records))])]
    refused = refusal_of_all(version, transactional_id, topics)
    assert (refused and refused.error.name) == answer, name
    body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4) + len(records).to_bytes(4) + records
    _, needs_request_check = read_topics(Reader(memoryview(body)), 3, {}, {})
    assert needs_request_check or answer is None, name


def test_what_is_sound_is_not_looked_at_twice() -> None:
    for codec in Codec:
        records = bytes(encode_batch(RECORDS, codec=codec, producer_id=5, producer_epoch=0, base_sequence=0))
        body = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4) + len(records).to_bytes(4) + records
        assert read_topics(Reader(memoryview(body)), 3, {}, {})[1] is False


@pytest.mark.parametrize(
    ("name", "records", "version", "acks", "topic", "answer"),
    [
        ("sound", GOOD, 9, -1, TOPIC, None),
        ("bad acks", GOOD, 9, 2, TOPIC, "INVALID_REQUIRED_ACKS"),
        ("bad acks and nothing", b"", 9, 2, TOPIC, "INVALID_RECORD"),
        ("an internal topic", GOOD, 9, 1, INTERNAL, "INVALID_TOPIC_EXCEPTION"),
        ("an internal topic and nothing", b"", 9, 1, INTERNAL, "INVALID_RECORD"),
        ("an internal topic and bad acks", GOOD, 9, 2, INTERNAL, "INVALID_REQUIRED_ACKS"),
        ("zstd", bytes(encode_batch(RECORDS, codec=ZSTD)), 6, -1, TOPIC, "UNSUPPORTED_COMPRESSION_TYPE"),
        ("no zstd", GOOD, 6, -1, TOPIC, None),
    ],
)
def test_what_refuses_a_partition(name: str, records: bytes, version: int, acks: int, topic: Topic, answer: str | None) -> None:
    refused = refusal_of_partition(version, acks, topic, memoryview(records))
    assert (refused and refused.error.name) == answer, name
    assert refused is None or refused.before_log


def test_topics_and_partitions_are_bounded() -> None:
    def body(*partitions_by_topic: int) -> Reader:
        topics = [b"\0\1t" + count.to_bytes(4, "big") + bytes(8) * count for count in partitions_by_topic]
        return Reader(memoryview(len(topics).to_bytes(4, "big") + b"".join(topics)))

    (topic,), _ = read_topics(body(PARTITIONS_MAX), 3, {}, {})
    assert len(topic.partitions) == PARTITIONS_MAX
    for counts in ((PARTITIONS_MAX + 1,), (PARTITIONS_MAX // 2, PARTITIONS_MAX // 2 + 1), (0,) * (PARTITIONS_MAX + 1)):
        with pytest.raises(PeerError, match=f"more than {PARTITIONS_MAX} topics or partitions: send fewer"):
            read_topics(body(*counts), 3, {}, {})


# Our responses to Produce are kio's bytes, in every version.

TOPIC_ID = uuid.UUID(int=7)
REFUSED = LogRefusal(ErrorCode.INVALID_RECORD, "no key", record_errors=((3, "record 3 has no key"),))
APPENDED = Appended(base_offset=5, last_offset=5, log_append_time_ms=-1, log_start_offset=2)


def decoded(version: int, partitions: list[PartitionResult]) -> Any:
    data = encode_produce_response(version, [(TOPIC_ID.bytes if version >= 13 else "t", partitions)], {1: Endpoint(1, "b", 9092)}.get)
    entity = messages.response_class(ApiKey.PRODUCE, version)
    body, size = entity_reader(entity)(bytes(data), 0)
    again = io.BytesIO()
    entity_writer(entity)(again, body)
    assert (size, again.getvalue()) == (len(data), bytes(data))
    return body


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version(version: int) -> None:
    body = decoded(version, [PartitionResult(0, APPENDED, 2), PartitionResult(1, REFUSED)])
    assert body.throttle_time == datetime.timedelta(0)
    (topic,) = body.responses
    assert (topic.topic_id == TOPIC_ID) if version >= 13 else (topic.name == "t")
    appended, refused = topic.partition_responses
    assert (appended.index, appended.error_code, appended.base_offset) == (0, ErrorCode.NONE, 5)
    assert (refused.index, refused.error_code, refused.base_offset) == (1, ErrorCode.INVALID_RECORD, -1)
    if version >= 5:
        assert (appended.log_start_offset, refused.log_start_offset) == (2, -1)
    if version >= 8:
        assert (refused.error_message, [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors]) == (
            "no key",
            [(3, "record 3 has no key")],
        )
    if version >= 10:
        assert body.node_endpoints == ()


@pytest.mark.parametrize("version", range(10, 14))
def test_the_leader_is_named_with_its_address(version: int) -> None:
    body = decoded(version, [PartitionResult(0, LogRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another"), leader=(1, 4))])
    (part,) = body.responses[0].partition_responses
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 4)
    assert [(each.node_id, each.host, each.port) for each in body.node_endpoints] == [(1, "b", 9092)]
