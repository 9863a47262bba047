"""Produce of batches whose records are read in a worker thread: the request waits, and the world may change meanwhile."""

import asyncio
import uuid
from typing import Any

import pytest

from ottla.broker.logs import batch_reading
from ottla.broker.logs.batch_reading import LOOP_BYTES_MAX, BatchReading
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.compression import ZSTD
from ottla.core.records.record_checks import check_records
from ottla.core.wire.api_keys import ApiKey

NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact"}


def large(value: bytes = b"v", key: bytes | None = b"k", **given: Any) -> bytes:
    """A small batch of many bytes."""
    records = [Record(0, NOW_MS, key, value), Record(1, NOW_MS, b"filler", bytes(LOOP_BYTES_MAX))]
    return bytes(encode_batch(records, codec=ZSTD, **given))


def fields(*batches: tuple[int, bytes], topic: Any = "t", acks: int = -1, version: int = 9) -> dict[str, Any]:
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


def results(answer) -> list[tuple[int, int, int]]:
    return [(part.index, int(part.error_code), part.base_offset) for part in answer.responses[0].partition_responses]


def finished(api, executor, waiting, version: int = 9):
    while not waiting.done():
        executor.run()
        api.step()
    return results(api.finish(ApiKey.PRODUCE, version, waiting))


@pytest.mark.parametrize("version", range(3, 14))
def test_the_request_waits_until_the_records_are_read(api, make_topic, executor, version: int) -> None:
    topic = make_topic("t", configs=COMPACTED)
    name = uuid.UUID(bytes=topic.topic_id) if version >= 13 else "t"
    key = ZSTD if version >= 7 else 0
    batch = large() if key else bytes(encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"filler", bytes(LOOP_BYTES_MAX))]))
    waiting = api.start(ApiKey.PRODUCE, version, **fields((0, batch), topic=name, version=version))
    api.step()
    assert (waiting.done(), values(api)) == (False, [])
    assert finished(api, executor, waiting, version) == [(0, 0, 0)]
    assert values(api) == [b"v"]


def test_all_that_follows_in_the_request_waits_too_and_order_is_kept(api, make_topic, executor, batch) -> None:
    make_topic("t", 3, configs={"message.timestamp.before.max.ms": "1000000000000"})
    small = bytes(encode_batch([Record(0, NOW_MS, b"k", b"small")]))
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((2, small), (0, large(b"1")), (1, small), (0, small), (0, large(b"2")), (7, small)))
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
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large(key=None)), (1, large())))
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
        frame = api.encode(0, 9, fields((0, large(b"1")), (1, large(b"2"))))
        found, request = api.dispatcher.read_request(memoryview(frame), "/127.0.0.1")
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
    waiting = api.start(ApiKey.PRODUCE, version, **fields((0, large()), topic=name, version=version))
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
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large(key=None)), (0, large(b"2"))))
    api.step()
    executor.run()
    alter(api, "cleanup.policy", "compact")
    assert finished(api, executor, waiting) == [(0, 87, -1), (0, 0, 0)]


def test_settings_that_ask_for_nothing_any_more(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large(key=None))))
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
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large())))
    api.step()

    async def move() -> None:
        api.cluster.leadership.move("t", 0, other)

    api.runner.run(move())
    assert finished(api, waiting_executor, waiting) == [(0, 6, -1)]


def test_a_producer_that_repeats_itself_while_it_waits(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    batch = large(producer_id=7, producer_epoch=0, base_sequence=0)
    first, again = (api.start(ApiKey.PRODUCE, 9, **fields((0, batch))) for _ in range(2))
    api.step()
    assert finished(api, executor, first) == finished(api, executor, again) == [(0, 0, 0)]
    assert values(api) == [b"v"]


def test_acks_0_is_not_answered_and_an_error_closes_the_connection(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large()), acks=0))
    api.step()
    assert (waiting.done(), values(api)) == (False, [])
    executor.run()
    assert api.finish(ApiKey.PRODUCE, 9, waiting) is None
    assert values(api) == [b"v"]
    failed: list[Exception] = []
    send(api, fields((0, large(key=None)), acks=0)).fail = failed.append
    api.step()
    executor.run()
    api.step()
    assert [type(error) for error in failed] == [PeerError]


def send(api, asked: dict[str, Any]):
    """Sends a request that a test may go on with."""

    async def begin():
        found, request = api.dispatcher.read_request(memoryview(api.encode(0, 9, asked)), "/127.0.0.1")
        request.send = lambda _parts: None
        api.dispatcher.dispatch(found, request)
        return request

    return api.runner.run(begin())


def test_a_client_that_has_gone_is_appended_all_the_same(api, make_topic, executor) -> None:
    make_topic("t", configs=COMPACTED)
    request = send(api, fields((0, large())))
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
    request = send(api, fields((0, large())))
    api.step()
    request.on_disconnect()
    api.step()
    executor.run()
    api.step()
    assert (values(api), api.cluster.batch_reading.waiting_bytes) == ([], 0)


def test_the_answer_waits_for_the_disk_where_the_topic_asks_for_it(api, make_topic, executor) -> None:
    make_topic("t", configs={**COMPACTED, "flush.messages": "1"})
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large())))
    api.step()
    executor.run()
    assert results(api.finish(ApiKey.PRODUCE, 9, waiting)) == [(0, 0, 0)]
    log = api.cluster.partitions.by_name("t", 0).log
    assert log.recovery_point == log.log_end_offset == 2


def test_another_codec_is_made_in_the_worker_thread(api, make_topic, executor) -> None:
    make_topic("t", configs={"compression.type": "gzip"})
    waiting = api.start(ApiKey.PRODUCE, 9, **fields((0, large())))
    api.step()
    assert not waiting.done()
    assert finished(api, executor, waiting) == [(0, 0, 0)]
    (header, _), *_ = api.cluster.partitions.by_name("t", 0).log.read_batches(0)
    assert header.codec.name == "GZIP"


def test_a_mistake_of_ours_closes_the_connection(api, make_topic, executor, monkeypatch: pytest.MonkeyPatch) -> None:
    make_topic("t", configs=COMPACTED)
    failed: list[Exception] = []
    send(api, fields((0, large()))).fail = failed.append

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
    assert results(api.ask(ApiKey.PRODUCE, 9, **fields((0, small)))) == [(0, 0, 0)]
    assert executor.jobs == []


@pytest.fixture
def after_start(make_api, make_topic, held):
    """A broker on a directory with topic `t`, which is not open yet."""
    before = make_api()
    make_topic("t", of=before)
    before.ask(ApiKey.PRODUCE, 9, **fields((0, bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")])))))

    async def close() -> None:
        before.cluster.close()

    before.runner.run(close())
    return make_api(files=before.files, opening_executor=held)


@pytest.mark.parametrize("acks", [0, -1])
def test_a_request_that_waits_for_an_opening_counts_as_memory(after_start, held, acks: int) -> None:
    request = send(after_start, fields((0, bytes(encode_batch([Record(0, NOW_MS, b"k", b"v")]))), acks=acks))
    after_start.step()
    assert (request.held_bytes > 60, request.is_one_way) == (True, acks == 0)
    held.run()
    after_start.step()
    assert after_start.cluster.partitions.by_name("t", 0).log.log_end_offset == 2
