"""One Fetch from its start to its response: cold records, partitions that must be opened, many partitions, memory for responses."""

import asyncio
import threading
from typing import Any

import pytest

from ottla.broker.fetch import pending_fetch
from ottla.broker.fetch.pending_fetch import DelayedFetch, PendingFetch
from ottla.broker.partitions import partitions
from ottla.broker.partitions.partition import Partition
from ottla.log.file_system import ColdRead, MemoryFile, MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import decode_batch, encode_batch, split_batches
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.waiting import wait_until_async


def fields(*, wait: int = 0, least: int = 1, most: int = 1 << 20, partitions=(0,)) -> dict[str, Any]:
    """A Fetch v12 of `t` from offset 0, without a session."""
    asked = [
        {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1, "log_start_offset": -1}
        for number in partitions
    ]
    return {
        "replica_id": -1, "max_wait": wait, "min_bytes": least, "max_bytes": most, "isolation_level": 0, "session_id": 0,
        "session_epoch": -1, "topics": [{"topic": "t", "partitions": asked}], "forgotten_topics_data": [], "rack_id": "",
    }  # fmt: skip


def values(part) -> list[bytes]:
    data = part.records or b""
    return [record.value for at, _ in split_batches(data) for record in decode_batch(data, at)]


def fill(api, batch, *batches: tuple[bytes, ...], partition: int = 0) -> None:
    for contents in batches:
        data = [{"name": "t", "partition_data": [{"index": partition, "records": batch(*contents)}]}]
        answer = api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


class ColdFile(MemoryFile):
    """A file whose ranges must be brought into memory before a read that does not wait finds them; `fails` breaks its disk."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = self.fails = self.remains_cold = False
        self.filled_by: list[str] = []

    def read(self, position: int, length: int, *, wait: bool = True) -> Any:
        if self.fails and wait:
            raise StorageError("cannot read: the disk reports an error; check the device")
        if self.is_cold and not wait:
            raise ColdRead(self._fill_cache)
        return super().read(position, length)

    def _fill_cache(self) -> None:
        self.filled_by.append(threading.current_thread().name)
        if self.fails:
            raise StorageError("cannot read: the disk reports an error; check the device")
        self.is_cold = self.remains_cold


@pytest.fixture
def cold_api(make_api, make_topic, monkeypatch):
    """A broker with topic `t` of two partitions with a record each, and the files of their logs."""
    monkeypatch.setattr("ottla.log.file_system.MemoryFile", ColdFile)
    files = MemoryFiles()
    api = make_api(None, files)
    make_topic("t", 2, of=api)
    logs = []
    for partition in range(2):
        data = [{"name": "t", "partition_data": [{"index": partition, "records": bytes(encode_batch([Record(0, 1, None, b"x")]))}]}]
        api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
        logs.append(files.open(f"t-{partition}/00000000000000000000.log"))
    return api, logs


@pytest.fixture
def cache_filled(monkeypatch):
    """Waits until the page cache is filled, and the fetch has read again."""
    filled = []
    really_filled = PendingFetch._cache_is_filled

    def note_filled(fetching, done) -> None:
        really_filled(fetching, done)
        filled.append(done)

    monkeypatch.setattr(PendingFetch, "_cache_is_filled", note_filled)

    async def wait() -> None:
        async with asyncio.timeout(60):
            while not filled:
                await asyncio.sleep(0.001)

    return wait


def test_cold_records_are_read_by_another_thread(cold_api) -> None:
    api, logs = cold_api
    for each in logs:
        each.is_cold = True
    first, second = api.ask(ApiKey.FETCH, 12, **fields(partitions=(0, 1))).responses[0].partitions
    assert (values(first), values(second)) == ([b"x"], [b"x"])
    for each in logs:
        assert len(each.filled_by) == 1
        assert each.filled_by[0] != threading.current_thread().name


def test_a_read_waits_for_records_that_stay_cold(cold_api) -> None:
    api, logs = cold_api
    logs[0].is_cold = logs[0].remains_cold = True
    first, second = api.ask(ApiKey.FETCH, 12, **fields(partitions=(0, 1))).responses[0].partitions
    assert (values(first), values(second), len(logs[0].filled_by)) == ([b"x"], [b"x"], 4)


def test_a_disk_that_fails_is_reported_for_its_partition_alone(cold_api) -> None:
    api, logs = cold_api
    logs[0].is_cold = logs[0].remains_cold = logs[0].fails = True
    first, second = api.ask(ApiKey.FETCH, 12, **fields(partitions=(0, 1), wait=60000)).responses[0].partitions
    assert (first.error_code, values(second)) == (ErrorCode.KAFKA_STORAGE_ERROR, [b"x"])


def test_cold_records_that_are_enough_are_answered_before_the_time_is_up(cold_api) -> None:
    api, logs = cold_api
    for each in logs:
        each.is_cold = True
    first, second = api.ask(ApiKey.FETCH, 12, **fields(partitions=(0, 1), wait=60000, least=100)).responses[0].partitions
    assert (values(first), values(second)) == ([b"x"], [b"x"])


def test_cold_records_that_are_enough_after_an_append(cold_api, batch) -> None:
    api, logs = cold_api
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, least=200))
    api.runner.run(asyncio.sleep(0))
    logs[0].is_cold = True
    fill(api, batch, (b"y" * 100,))
    assert values(api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0]) == [b"x", b"y" * 100]


def test_after_cold_records_the_fetch_waits_for_enough_bytes(cold_api, batch, cache_filled) -> None:
    api, logs = cold_api
    logs[0].is_cold = True
    waiting = api.start(ApiKey.FETCH, 12, **fields(wait=60000, least=100))
    api.runner.run(cache_filled())
    assert not waiting.done()
    fill(api, batch, (b"y" * 50,))
    assert values(api.finish(ApiKey.FETCH, 12, waiting).responses[0].partitions[0]) == [b"x", b"y" * 50]


def test_a_connection_that_closes_while_its_records_are_read(cold_api, cache_filled) -> None:
    api, logs = cold_api
    logs[0].is_cold = True
    sent: list[Any] = []

    async def run() -> None:
        kind, request = api.dispatcher.read_request(memoryview(api.encode(1, 12, fields(wait=60000))), api.session)
        request.send = sent.append
        api.dispatcher.dispatch(kind, request)
        request.on_disconnect()
        await cache_filled()

    api.runner.run(run())
    assert (sent, len(logs[0].filled_by)) == ([], 1)


def reopened(make_api, make_topic, batch, held, partitions: int):
    """A broker after a clean stop, that opens partitions when the test calls `held.run`; each has one record."""
    before = make_api()
    make_topic("t", partitions, of=before)
    for number in range(partitions):
        fill(before, batch, (b"x",), partition=number)

    async def close() -> None:
        before.cluster.close()

    before.runner.run(close())
    return make_api(files=before.files, opening_executor=held)


def asking(api, count: int, sent: list[bytes]):
    """A Fetch that that is sent and not answered yet."""
    kind, request = api.dispatcher.read_request(memoryview(api.encode(1, 12, fields(partitions=range(count)))), api.session)
    request.send = lambda parts: sent.append(b"".join(parts))
    api.dispatcher.dispatch(kind, request)
    return request


async def iterate() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_fetch_waits_for_partitions_that_worker_threads_open_a_few_at_a_time(make_api, make_topic, batch, held, monkeypatch) -> None:
    monkeypatch.setattr(partitions, "OPENINGS_AT_ONCE", 3)
    again = reopened(make_api, make_topic, batch, held, 10)
    sent: list[bytes] = []

    async def ask_and_count() -> list[tuple[int, int]]:
        asking(again, 10, sent)
        await iterate()
        counts = []
        while not sent:
            counts.append((len(again.cluster.partitions.opened()), len(held.held)))
            held.run()
            await iterate()
            await iterate()
        return counts

    assert again.runner.run(ask_and_count()) == [(0, 3), (3, 3), (6, 3), (9, 1)]
    (topic,) = again.finish(ApiKey.FETCH, 12, again.runner.run(done(sent[0]))).responses
    assert [values(part) for part in topic.partitions] == [[b"x"]] * 10


async def done(data: bytes) -> "asyncio.Future[bytes]":
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    answer.set_result(data)
    return answer


def test_no_more_partitions_are_opened_for_a_connection_that_has_closed(make_api, make_topic, batch, held, monkeypatch) -> None:
    monkeypatch.setattr(partitions, "OPENINGS_AT_ONCE", 3)
    again = reopened(make_api, make_topic, batch, held, 10)
    sent: list[bytes] = []

    async def ask_and_close() -> None:
        request = asking(again, 10, sent)
        await iterate()
        request.on_disconnect()
        held.run()
        await iterate()

    again.runner.run(ask_and_close())
    assert (len(again.cluster.partitions.opened()), held.held, sent) == (3, [], [])


def test_a_fetch_of_very_many_partitions_lets_other_requests_continue_in_between(api, make_topic, monkeypatch) -> None:
    make_topic("t", 10)
    monkeypatch.setattr(pending_fetch, "RESOLVED_PER_ITERATION", 4)
    sent: list[bytes] = []

    async def ask_and_count() -> list[int]:
        asking(api, 10, sent)
        counts = []
        while not sent:
            counts.append(len(api.cluster.partitions.opened()))
            await asyncio.sleep(0)
        return counts

    assert api.runner.run(ask_and_count()) == [4, 8]
    assert len(api.cluster.partitions.opened()) == 10


@pytest.fixture
def batch_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fetches of more than two partitions read two at a time; returns how many each batch has."""
    monkeypatch.setattr(pending_fetch, "READ_AT_ONCE_MAX", 2)
    sizes: list[int] = []
    really_read = PendingFetch._read
    monkeypatch.setattr(
        PendingFetch, "_read", lambda self, readable, cold: sizes.append(len(readable)) or really_read(self, readable, cold)
    )
    return sizes


def test_many_partitions_are_read_in_batches(api, make_topic, batch, batch_sizes: list[int]) -> None:
    make_topic("t", 5)
    for number in range(5):
        fill(api, batch, (b"%d" % number,), partition=number)
    (topic,) = api.ask(ApiKey.FETCH, 12, **fields(partitions=range(5))).responses
    assert [values(part) for part in topic.partitions] == [[b"%d" % number] for number in range(5)]
    assert batch_sizes == [2, 2, 1]


def test_the_limit_of_a_response_holds_over_all_batches(api, make_topic, batch, batch_sizes: list[int]) -> None:
    make_topic("t", 5)
    for number in range(5):
        fill(api, batch, (b"x" * 1000,), partition=number)
    (topic,) = api.ask(ApiKey.FETCH, 12, **fields(partitions=range(5), most=2500)).responses
    assert [len(values(part)) for part in topic.partitions] == [1, 1, 0, 0, 0]


def test_many_partitions_wait_and_are_woken(api, make_topic, batch, batch_sizes: list[int]) -> None:
    make_topic("t", 5)
    waiting = api.start(ApiKey.FETCH, 12, **fields(partitions=range(5), wait=60000))
    for _ in range(5):
        api.runner.run(asyncio.sleep(0))
    assert not waiting.done()
    fill(api, batch, (b"x",), partition=3)
    (topic,) = api.finish(ApiKey.FETCH, 12, waiting).responses
    assert [values(part) for part in topic.partitions] == [[], [], [], [b"x"], []]
    assert batch_sizes == [2, 2, 1] * 2
    assert all(partition.waiters == set() for partition in api.cluster.partitions.opened())


def test_a_connection_that_closes_while_many_partitions_are_read(api, make_topic, batch, batch_sizes: list[int], monkeypatch) -> None:
    make_topic("t", 5)
    fill(api, batch, (b"x",))
    monkeypatch.setattr(api.cluster.scheduler, "_left_s", 0)
    sent: list[Any] = []

    async def run() -> None:
        kind, request = api.dispatcher.read_request(memoryview(api.encode(1, 12, fields(partitions=range(5), wait=60000))), api.session)
        request.send = sent.append
        api.dispatcher.dispatch(kind, request)
        request.on_disconnect()
        for _ in range(5):
            await asyncio.sleep(0)

    api.runner.run(run())
    assert sent == []
    assert batch_sizes == []
    assert all(partition.waiters == set() for partition in api.cluster.partitions.opened())


class SlowReader:
    """A connection that does not take its response."""

    def unsent_bytes(self) -> int:
        return 0

    def give_up(self, why: str) -> None:
        raise AssertionError(why)


def test_while_slow_readers_hold_the_memory_for_responses_large_ones_wait_and_small_ones_do_not(api, make_topic, batch) -> None:
    make_topic("t", 2)
    fill(api, batch, (b"large" * 30_000,), (b"small",))
    fill(api, batch, (b"small",), partition=1)
    memory, slow = api.cluster.response_memory, [SlowReader() for _ in range(1000)]
    for reader in slow:
        memory.take(reader, memory.bytes_max // 1000 + 1, 0.0)
    (part,) = api.ask(ApiKey.FETCH, 12, **fields(partitions=(1,))).responses[0].partitions
    assert values(part) == [b"small"]
    waiting = [api.start(ApiKey.FETCH, 12, **fields(wait=100)) for _ in range(2)]

    async def until_two_wait() -> None:
        async with asyncio.timeout(60):
            while len(memory._waiting) < 2:
                await asyncio.sleep(0.01)

    api.runner.run(until_two_wait())
    assert not any(answer.done() for answer in waiting)

    async def release() -> None:
        for reader in slow:
            memory.release(reader)

    api.runner.run(release())
    for answer in waiting:
        (part,) = api.finish(ApiKey.FETCH, 12, answer).responses[0].partitions
        assert values(part) == [b"large" * 30_000, b"small"]


def test_memory_for_a_response_is_not_held_for_a_closed_connection(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch, (b"large" * 30_000,))
    memory = api.cluster.response_memory
    for _ in range(1000):
        memory.take(SlowReader(), memory.bytes_max // 1000 + 1, 0.0)

    async def ask_and_close() -> None:
        served, request = api.dispatcher.read_request(memoryview(api.encode(1, 12, fields())), api.session)
        api.dispatcher.dispatch(served, request)
        assert len(memory._waiting) == 1
        request.on_disconnect()
        assert not memory._waiting

    api.runner.run(ask_and_close())


# A request that waits: woken once for many appends, answered at the latest when its time is up, and gone afterwards.


class Wait:
    def __init__(self, enough_after: int, wait_s: float) -> None:
        self.partitions = [
            Partition(TopicPartition("t", number), PartitionLog(MemoryFiles(), f"t-{number}", LogSettings())) for number in range(2)
        ]
        self.asked: list[bool] = []
        self.enough_after = enough_after
        self.delayed = DelayedFetch(asyncio.get_running_loop(), self.partitions, self.try_again, wait_s)

    def try_again(self, time_is_up: bool) -> bool:
        self.asked.append(time_is_up)
        return len(self.asked) >= self.enough_after


def append(partition: Partition) -> None:
    partition.append_records([Record(0, 5, None, b"x")], now_ms=5)


def run(story) -> None:
    asyncio.run(story())


def test_several_appends_in_one_iteration_are_one_try() -> None:
    async def story() -> None:
        wait = Wait(enough_after=1, wait_s=60)
        for partition in wait.partitions:
            append(partition)
        assert wait.asked == []
        await asyncio.sleep(0)
        assert wait.asked == [False]
        assert all(partition.waiters == set() for partition in wait.partitions)

    run(story)


def test_it_tries_again_until_there_is_enough() -> None:
    async def story() -> None:
        wait = Wait(enough_after=2, wait_s=60)
        for _ in range(3):
            append(wait.partitions[0])
            await asyncio.sleep(0)
        assert wait.asked == [False, False]

    run(story)


@pytest.mark.parametrize("wait_s", [0, 0.01])
def test_time_is_up(wait_s: float) -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=wait_s)
        await wait_until_async(lambda: wait.asked, "the end of the wait")
        assert wait.asked == [True]
        append(wait.partitions[0])
        await asyncio.sleep(0)
        assert wait.asked == [True]

    run(story)


def test_a_cancelled_fetch_leaves_no_callbacks() -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=0.01)
        append(wait.partitions[0])
        wait.delayed.cancel()
        assert all(partition.waiters == set() for partition in wait.partitions)
        await asyncio.sleep(0.05)
        assert wait.asked == []

    run(story)
