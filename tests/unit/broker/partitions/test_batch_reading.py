"""Few bytes are read by the reference implementation; many by the compiled one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.logs import record_check_backend
from ottla.broker.logs.record_check_backend import COMPILED_BYTES_MIN, RecordCheckBackend
from ottla.columnar import compile_cache
from ottla.columnar.record_checks import checks as compiled
from ottla.columnar.record_checks.section_window import READ_BYTES, SectionWindow
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records import record_checks as reference
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, encode_batch, read_header
from ottla.core.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, Compressed
from ottla.core.records.record_checks import Checks, Findings

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
    monkeypatch.setattr(compile_cache, "is_cached", lambda _module: is_cached)
    use(RecordCheckBackend(lambda _command: Process()), LARGE)  # type: ignore[arg-type,return-value]
    assert calls == [name] * 2


def compressed(codec: Codec, batch: bytearray) -> Compressed:
    return Compressed(codec, memoryview(batch)[HEADER_BYTES:])


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes lay in memory each time that the compiled code was called."""
    monkeypatch.setattr(compile_cache, "is_cached", lambda _module: True)
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
