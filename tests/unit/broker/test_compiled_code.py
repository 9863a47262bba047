"""Compiled code that is kept is used at once; else another process compiles it, once."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker import compiled_code
from ottla.broker.compiled_code import CompiledCode, start_process
from ottla.protocol.arrow import primitives


class Process:
    """A compiling process as the test wants it."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.is_killed = False

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int:
        return -9

    def kill(self) -> None:
        self.is_killed = True


class Compiling:
    """Starts such processes, and remembers them."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    def __call__(self, command: Sequence[str]) -> Any:
        assert command[0] == sys.executable
        assert "from ottla.log.compiled.cleaning import load_kernels" in command[2]
        self.started.append(Process())
        return self.started[-1]


@pytest.fixture
def compiling() -> Compiling:
    return Compiling()


@pytest.fixture
def is_cached(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the disk says; the test changes it."""
    answer = [False]
    monkeypatch.setattr(primitives, "is_cached", lambda _module: answer[0])
    return answer


def make(start: Any) -> CompiledCode:
    return CompiledCode("ottla.log.compiled.cleaning", "ottla.log.compiled.cleaning_kernels", start)


def test_what_is_kept_is_there_at_once(compiling: Compiling, is_cached: list[bool]) -> None:
    is_cached[0] = True
    assert make(compiling).is_compiled()
    assert compiling.started == []


def test_what_is_not_is_compiled_by_another_process_and_then_there(compiling: Compiling, is_cached: list[bool]) -> None:
    code = make(compiling)
    assert [code.is_compiled(), code.is_compiled()] == [False, False]
    (process,) = compiling.started
    is_cached[0] = True
    assert not code.is_compiled(), "the process is not done"
    process.returncode = 0
    assert code.is_compiled()
    assert len(compiling.started) == 1


@pytest.mark.parametrize("status", [0, 1])
def test_code_that_cannot_be_kept_is_given_up(compiling: Compiling, is_cached: list[bool], caplog: Any, status: int) -> None:
    code = make(compiling)
    assert not code.is_compiled()
    compiling.started[0].returncode = status
    with caplog.at_level("INFO"):
        assert [code.is_compiled(), code.is_compiled()] == [False, False]
    assert len(compiling.started) == 1
    assert f"ended with status {status}, and the cache is empty" in caplog.text


def test_no_process_can_be_started(is_cached: list[bool], caplog: Any) -> None:
    def refuse(_: Sequence[str]) -> "subprocess.Popen[bytes]":
        raise OSError("too many processes")

    code = make(refuse)
    with caplog.at_level("INFO"):
        assert [code.is_compiled(), code.is_compiled()] == [False, False]
    assert "too many processes" in caplog.text


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, compiling: Compiling) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not make(compiling).is_compiled()
    assert compiling.started == []


def test_packages_are_looked_for_when_the_code_is_asked_for(monkeypatch: pytest.MonkeyPatch, compiling: Compiling) -> None:
    asked: list[str] = []
    monkeypatch.setattr(compiled_code, "missing_packages", lambda extra: asked.append(extra) or ["numba"])
    code = make(compiling)
    assert asked == [], "a broker that starts does not look through sys.path"
    assert [code.is_compiled(), code.is_compiled()] == [False, False]
    assert asked == ["arrow"]


def test_the_end_of_the_broker_ends_the_process(compiling: Compiling, is_cached: list[bool]) -> None:
    code = make(compiling)
    code.is_compiled()
    code.close()
    assert compiling.started[0].is_killed
    assert not code.is_compiled()
    assert len(compiling.started) == 1
    code.close()


@pytest.mark.parametrize("module", ["ottla.log.compiled.cleaning", "ottla.groups.log.arrow.loading"])
def test_the_real_process_loads_the_backend(module: str) -> None:
    process = start_process([sys.executable, "-c", compiled_code._COMPILE.format(module=module)])
    assert process.wait(timeout=120) == 0
