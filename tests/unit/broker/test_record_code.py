"""Few bytes are read by the reference implementation; many by the compiled one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.record_code import COMPILED_BYTES_MIN, RecordCode
from ottla.columnar import kept
from ottla.columnar import record_checks as compiled
from ottla.core.model import Record
from ottla.core.records import record_checks as reference
from ottla.core.records.batch import HEADER_BYTES, encode_batch, read_header
from ottla.core.records.record_checks import Checks, Findings

SMALL = encode_batch([Record(0, 5, b"k", None)])
LARGE = encode_batch([Record(0, 5, b"k", bytes(COMPILED_BYTES_MIN))])
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


def use(code: RecordCode, batch: bytearray) -> None:
    assert code.check(batch[HEADER_BYTES:], read_header(batch), CHECKS) == Findings()
    assert code.find(batch[HEADER_BYTES:], read_header(batch), 0, 0) == (5, 0)
    code.close()


def test_few_bytes_load_nothing(calls: list[str]) -> None:
    use(RecordCode(never), SMALL)
    assert calls == ["reference"] * 2


@pytest.mark.parametrize(("is_kept", "name"), [(True, "compiled"), (False, "reference")])
def test_many_bytes(monkeypatch: pytest.MonkeyPatch, calls: list[str], is_kept: bool, name: str) -> None:
    monkeypatch.setattr(kept, "is_kept", lambda _module: is_kept)
    use(RecordCode(lambda _command: Process()), LARGE)  # type: ignore[arg-type,return-value]
    assert calls == [name] * 2
