"""What is read on the loop, and what in the worker thread."""

import asyncio
import threading
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from ottla.broker.partitions import batch_reading as record_check_backend
from ottla.broker.partitions.batch_reading import COMPILED_BYTES_MIN, LOOP_BYTES_MAX, BatchReading, RecordCheckBackend
from ottla.log.append import LogRefusal, UnreadBatch, accept
from ottla.log.compiled import record_checks as compiled
from ottla.log.compiled.record_checks import READ_BYTES, SectionWindow
from ottla.log.settings import LogSettings
from ottla.protocol.arrow import primitives
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records import record_checks as reference
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, decode_batch, encode_batch, join_batch, read_header
from ottla.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, Compressed
from ottla.protocol.records.record_checks import Checks, Findings, check_records

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


SMALL = encode_batch([Record(0, 5, b"k", None)])
LARGE = encode_batch([Record(0, 5, b"k", bytes(COMPILED_BYTES_MIN))])
RECORDS = [Record(number, 5, b"k", bytes(1000)) for number in range(6000)]
CHECKS = Checks(needs_key=True, checks_time=False, earliest_ms=0, latest_ms=0)


class Process:
    """A process that never ends compiling."""

    returncode = None

    def poll(self) -> None:
        return None

    def kill(self) -> None:
        pass

    def wait(self) -> int:
        return 0


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which implementations were called."""
    called: list[str] = []

    def watch(module: Any, function: str, name: str) -> None:
        original = getattr(module, function)

        def call(*given: Any) -> Any:
            called.append(name)
            return original(*given)

        monkeypatch.setattr(module, function, call)

    for function in ("check_records", "find_timestamp"):
        watch(reference, function, "reference")
        watch(compiled, function, "compiled")
    return called


def use(code: RecordCheckBackend, batch: bytearray) -> None:
    assert code.check(batch[HEADER_BYTES:], read_header(batch), CHECKS) == Findings()
    assert code.find(batch[HEADER_BYTES:], read_header(batch), 0, 0) == (5, 0)
    code.close()


def test_few_bytes_load_nothing(calls: list[str]) -> None:
    use(RecordCheckBackend(never), SMALL)
    assert calls == ["reference"] * 2


@pytest.mark.parametrize(("is_cached", "name"), [(True, "compiled"), (False, "reference")])
def test_many_bytes(monkeypatch: pytest.MonkeyPatch, calls: list[str], is_cached: bool, name: str) -> None:
    monkeypatch.setattr(primitives, "is_cached", lambda _module: is_cached)
    use(RecordCheckBackend(lambda _command: Process()), LARGE)  # type: ignore[arg-type,return-value]
    assert calls == [name] * 2


def compressed(codec: Codec, batch: bytearray) -> Compressed:
    return Compressed(codec, memoryview(batch)[HEADER_BYTES:])


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes lay in memory each time that the compiled code was called."""
    monkeypatch.setattr(primitives, "is_cached", lambda _module: True)
    sizes: list[int] = []
    original = SectionWindow.address.fget
    assert original is not None

    def watch(window: SectionWindow) -> int:
        sizes.append(len(window.view))
        return original(window)

    monkeypatch.setattr(SectionWindow, "address", property(watch))
    return sizes


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_many_compressed_records_are_never_in_memory_together(views: list[int], codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec)
    code = RecordCheckBackend(never)
    assert code.check(compressed(codec, batch), read_header(batch), CHECKS) == Findings()
    assert code.find(compressed(codec, batch), read_header(batch), 0, 0) == (5, 0)
    if codec in (NONE, SNAPPY):  # it is in memory as it came; a block of snappy refers to all that is before it
        assert len(views) == 2
    else:
        assert len(views) > 3
        assert max(views) <= READ_BYTES


def test_few_compressed_records_load_nothing(calls: list[str]) -> None:
    batch = encode_batch([Record(0, 5, b"k", None)], codec=ZSTD)
    assert RecordCheckBackend(never).check(compressed(ZSTD, batch), read_header(batch), CHECKS) == Findings()
    assert calls == ["reference"]


def test_without_a_descriptor_all_of_it_is_decompressed(monkeypatch: pytest.MonkeyPatch, views: list[int]) -> None:
    def full(*_given: object, **_named: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(record_check_backend, "Inflating", full)
    batch = encode_batch(RECORDS, codec=ZSTD)
    assert RecordCheckBackend(never).check(compressed(ZSTD, batch), read_header(batch), CHECKS) == Findings()
    assert len(views) == 1


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_cannot_be_decompressed_is_no_finding(views: list[int], codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec)
    with pytest.raises(PeerError, match=r"cannot be decompressed|ends inside|names a block"):
        RecordCheckBackend(never).check(compressed(codec, batch[:-20]), read_header(batch), CHECKS)
    bomb = encode_batch([Record(0, 5, b"k", bytes(DECOMPRESSED_BYTES_MAX))], codec=codec)
    with pytest.raises(PeerError, match=f"holds more than {DECOMPRESSED_BYTES_MAX} bytes"):
        RecordCheckBackend(never).check(compressed(codec, bomb), read_header(bomb), CHECKS)
