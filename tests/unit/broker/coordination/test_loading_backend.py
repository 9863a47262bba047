"""Small logs are read by the reference backend, large ones by the columnar one, where its code is there."""

from typing import Any

import pytest

from ottla.broker.coordination.loading_backend import COMPILED_BYTES_MIN, LoadingBackends
from ottla.columnar import compile_cache
from ottla.core.groups.log.reducer import ReferenceReducer


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_a_small_log_needs_nothing_heavy() -> None:
    assert LoadingBackends(never).choose(COMPILED_BYTES_MIN - 1) is ReferenceReducer


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_large_log_is_read_by_compiled_code_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, is_cached: bool) -> None:
    from ottla.columnar.group_loading.reducer import CompiledReducer

    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(compile_cache, "is_cached", lambda _module: is_cached)
    backends = LoadingBackends(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert backends.choose(COMPILED_BYTES_MIN) is (CompiledReducer if is_cached else ReferenceReducer)
    backends.close()
