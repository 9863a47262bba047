"""Small logs take the reference backend; large ones the columnar one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.logs.cleaner_backend import COMPILED_BYTES_MIN, CleanerBackends
from ottla.columnar import compile_cache
from ottla.core.cleaning.reference import ReferenceBackend


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_small_logs_start_nothing() -> None:
    assert isinstance(CleanerBackends(never).choose(COMPILED_BYTES_MIN - 1), ReferenceBackend)


@pytest.mark.parametrize(("is_cached", "backend"), [(True, "CompiledBackend"), (False, "ReferenceBackend")])
def test_large_logs_take_the_columnar_backend_where_they_can(monkeypatch: pytest.MonkeyPatch, is_cached: bool, backend: str) -> None:
    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(compile_cache, "is_cached", lambda _module: is_cached)
    backends = CleanerBackends(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert type(backends.choose(COMPILED_BYTES_MIN)).__name__ == backend
    backends.close()
