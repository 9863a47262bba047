"""Produce: what is appended, what is refused, and that nothing is answered for acks=0."""

import asyncio
import uuid

import pytest

from ottla.broker.apis import produce as produce_api
from ottla.broker.logs.partition import Partition
from ottla.core.errors import ErrorCode, PeerError, StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header, seal
from ottla.core.records.compression import ZSTD
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.log.partition_log import PartitionLog


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

    found, request = api.dispatcher.read_request(memoryview(frame[:-5]), "/")
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
        kind, request = api.dispatcher.read_request(memoryview(api.encode(0, 9, fields(batch(b"x")))), "/127.0.0.1")
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
        brokers=brokers,
        clock=lambda: 1_700_000_000_000,
        cluster_metadata=metadata,
        node=brokers.nodes[1],
        partitions=partitions,
    )
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
