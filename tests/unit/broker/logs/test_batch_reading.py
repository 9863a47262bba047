"""What is read on the loop, and what in the worker thread."""

import asyncio
import threading
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from ottla.broker.logs.batch_reading import LOOP_BYTES_MAX, BatchReading
from ottla.core.model import Record
from ottla.core.records.batch import decode_batch, encode_batch, join_batch, read_header
from ottla.core.records.compression import NONE, ZSTD, Codec
from ottla.core.records.record_checks import check_records
from ottla.storage.log.client_batch import UnreadBatch, accept
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import LogRefusal

COMPACTED = LogSettings(cleanup_policy="compact")


def unread(value_bytes: int, codec: Codec = NONE, key: bytes | None = b"k") -> UnreadBatch:
    found = accept(memoryview(encode_batch([Record(0, 5, key, bytes(value_bytes))], codec=codec)), COMPACTED, 0)
    assert isinstance(found, UnreadBatch)
    return found


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_few_bytes_are_read_at_once_and_many_are_not(codec: Codec) -> None:
    async def run() -> None:
        reading = BatchReading(check_records)
        read = reading.read_now(unread(100, codec))
        assert type(read) is tuple
        assert decode_batch(read[1])[0].value == bytes(100)
        assert reading.read_now(unread(LOOP_BYTES_MAX, codec)) is None
        reading.close()

    asyncio.run(run())


def test_an_iteration_of_the_loop_reads_no_more_than_that_together() -> None:
    async def run() -> None:
        reading, batch = BatchReading(check_records), unread(LOOP_BYTES_MAX // 3)
        for _ in range(2):
            assert [reading.read_now(batch) is not None for _ in range(4)] == [True, True, False, False]
            await asyncio.sleep(0)
        reading.close()

    asyncio.run(run())


def test_what_is_refused_at_once() -> None:
    async def run() -> None:
        reading = BatchReading(check_records)
        assert isinstance(reading.read_now(unread(1, key=None)), LogRefusal)
        batch = join_batch(read_header(encode_batch([Record(0, 5, b"k", None)], codec=ZSTD)), b"\x28\xb5\x2f\xfd no frame")
        broken = accept(memoryview(batch), COMPACTED, 0)
        assert isinstance(broken, UnreadBatch)
        assert isinstance(reading.read_now(broken), LogRefusal)
        reading.close()

    asyncio.run(run())


def test_one_batch_is_read_at_a_time_on_another_thread_by_the_given_checks() -> None:
    threads: list[int] = []

    def check(*given: Any) -> Any:
        threads.append(threading.get_ident())
        return check_records(*given)

    async def run() -> None:
        reading = BatchReading(check)
        found = await asyncio.gather(*(reading.read(unread(LOOP_BYTES_MAX, key=key)) for key in (b"k", None, b"k")))
        assert [isinstance(read, LogRefusal) for read in found] == [False, True, False]
        reading.close()

    asyncio.run(run())
    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_what_waits_is_dropped_at_the_end() -> None:
    class Stopped(Executor):
        def __init__(self) -> None:
            self.waiting: list[Future[Any]] = []

        def submit(self, _call: Any, /, *_given: Any, **_named: Any) -> "Future[Any]":
            self.waiting.append(Future())
            return self.waiting[-1]

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            assert wait
            assert cancel_futures
            for future in self.waiting:
                future.cancel()

    async def run() -> None:
        reading = BatchReading(check_records, Stopped())
        task = asyncio.ensure_future(reading.read(unread(LOOP_BYTES_MAX)))
        await asyncio.sleep(0)
        reading.close()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(run())
