"""Requests that wait for partitions to be opened: answered in the order of their connection, whatever becomes of the partitions."""

import asyncio

import pytest

from ottla.broker.apis import produce
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey

LIST_OFFSETS = {"replica_id": -1, "isolation_level": 0}


def reopened(make_api, held, partitions: int):
    """A broker after a clean stop; each partition has three records."""
    first = make_api()
    first.cluster.topics.create(NewTopic(name="t", partitions=partitions))
    for number in range(partitions):
        log = first.cluster.partitions.by_name("t", number).log
        log.append_records([Record(0, 5, None, b"x")] * 3, now_ms=5)

    async def close() -> None:
        first.cluster.close()

    first.runner.run(close())
    return make_api(files=first.files, opening_executor=held)


async def go_on() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def ends(number: int) -> dict[str, object]:
    return {**LIST_OFFSETS, "topics": [{"name": "t", "partitions": [{"partition_index": each, "timestamp": -1} for each in range(number)]}]}


def epochs(number: int) -> dict[str, object]:
    asked = [{"partition": each, "current_leader_epoch": -1, "leader_epoch": 0} for each in range(number)]
    return {"replica_id": -1, "topics": [{"topic": "t", "partitions": asked}]}


def starts(number: int) -> dict[str, object]:
    return {"timeout": 1000, "topics": [{"name": "t", "partitions": [{"partition_index": each, "offset": 2} for each in range(number)]}]}


def records(number: int) -> dict[str, object]:
    batch = bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"y")]))
    data = [{"index": each, "records": batch} for each in range(number)]
    return {"acks": -1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": data}]}


ASKED = {
    2: (3, ends, lambda answer: [(part.error_code, part.offset) for part in answer.topics[0].partitions]),
    23: (3, epochs, lambda answer: [(part.error_code, part.end_offset) for part in answer.topics[0].partitions]),
    21: (1, starts, lambda answer: [(part.error_code, part.low_watermark) for part in answer.topics[0].partitions]),
    0: (8, records, lambda answer: [(part.error_code, part.base_offset) for part in answer.responses[0].partition_responses]),
}
FOUND = {2: 3, 23: 3, 21: 2, 0: 3}


@pytest.mark.parametrize("key", ASKED)
def test_a_request_waits_while_its_partitions_are_opened(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 2)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(2))
    api.runner.run(go_on())
    assert (answer.done(), len(held.held)) == (False, 2)
    held.run(1)
    api.runner.run(go_on())
    assert not answer.done()
    held.run(1)
    assert found(api.finish(key, version, answer)) == [(ErrorCode.NONE, FOUND[key])] * 2


@pytest.mark.parametrize("key", ASKED)
def test_a_partition_that_cannot_be_opened_costs_the_others_nothing(make_api, held, monkeypatch, key: int) -> None:
    api = reopened(make_api, held, 2)
    version, fields, found = ASKED[key]
    open_log = PartitionLog.open

    def fail(log, now_ms, **known):
        if log.directory == "t-0":
            raise StorageError("cannot read t-0: the disk reports an error")
        return open_log(log, now_ms, **known)

    monkeypatch.setattr(PartitionLog, "open", fail)
    answer = api.start(key, version, **fields(2))
    api.runner.run(go_on())
    held.run()
    assert found(api.finish(key, version, answer)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1), (ErrorCode.NONE, FOUND[key])]


@pytest.mark.parametrize("key", ASKED)
def test_a_topic_may_be_deleted_while_a_request_waits_for_its_partitions(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 1)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(1))

    async def delete() -> None:
        await go_on()
        assert api.cluster.topic_deletion.delete("t") is None
        await held.run_for(api.cluster.partitions.when_moved(["t"]))

    api.runner.run(delete())
    assert found(api.finish(key, version, answer)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


@pytest.mark.parametrize("key", ASKED)
def test_a_leader_may_move_while_a_request_waits_for_its_partition(make_api, held, key: int) -> None:
    api = reopened(make_api, held, 1)
    version, fields, found = ASKED[key]
    answer = api.start(key, version, **fields(1))

    async def move() -> None:
        await go_on()
        topic = api.cluster.topics.get("t")
        topic.leaders[0] = 7
        held.run()
        await go_on()

    api.runner.run(move())
    assert found(api.finish(key, version, answer)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_client_that_goes_is_not_answered(make_api, held) -> None:
    api = reopened(make_api, held, 1)
    sent: list[object] = []

    async def ask_and_go() -> None:
        kind, request = api.dispatcher.read_request(memoryview(api.encode(2, 3, ends(1))), api.session)
        request.send = sent.append
        api.dispatcher.dispatch(kind, request)
        await go_on()
        request.on_disconnect()
        held.run()
        await go_on()

    api.runner.run(ask_and_go())
    assert sent == []


def test_records_of_a_producer_that_waits_for_no_answer_are_appended_though_it_has_gone(make_api, held) -> None:
    api = reopened(make_api, held, 1)

    async def ask_and_go() -> None:
        frame = api.encode(0, 8, {**records(1), "acks": 0})
        kind, request = api.dispatcher.read_request(memoryview(frame), api.session)
        request.send = lambda _parts: None
        api.dispatcher.dispatch(kind, request)
        frame[:] = bytes(len(frame))  # the server reads the next request into it
        request.on_disconnect()
        await go_on()
        held.run()
        await go_on()

    api.runner.run(ask_and_go())
    assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 4


def test_where_everything_is_open_produce_looks_at_no_partition_first(api, monkeypatch) -> None:
    api.cluster.topics.create(NewTopic(name="t", partitions=1))
    monkeypatch.setattr(produce.Produce, "_unopened", None)
    assert ASKED[0][2](api.ask(ApiKey.PRODUCE, 8, **records(1))) == [(ErrorCode.NONE, 0)]


def test_records_for_very_many_partitions_are_appended_over_several_iterations(api, monkeypatch) -> None:
    monkeypatch.setattr(produce, "PARTITIONS_AT_ONCE_MAX", 3)
    monkeypatch.setattr(produce, "SHARE_S", -1.0)
    api.cluster.topics.create(NewTopic(name="t", partitions=8))
    answer = api.start(ApiKey.PRODUCE, 8, **records(8))

    async def count() -> list[int]:
        counts = []
        while not answer.done():
            counts.append(len(api.cluster.partitions.opened()))
            await asyncio.sleep(0)
        return counts

    counts = api.runner.run(count())
    assert counts[0] < counts[len(counts) // 2] < 8
    assert ASKED[0][2](api.finish(ApiKey.PRODUCE, 8, answer)) == [(ErrorCode.NONE, 0)] * 8
