"""Chooses the backend that loads groups: the compiled one for large logs, where its code is ready; else the reference backend."""

from typing import Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.groups.log.reducer import ReducerFactory, ReferenceReducer

COMPILED_BYTES_MIN: Final = 4 << 20
"""The reference backend reads less in the time that loading the compiled code takes; a million compressed commits are some 14 MB."""


class LoadingBackends:
    """The loading backends of one process; thread-safe."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.group_loading.reducer", "ottla.columnar.group_loading.kernels", start)

    def choose(self, log_bytes: int) -> ReducerFactory:
        """The backend for logs of `log_bytes` in total. Blocks only the calling thread while code is loaded."""
        if log_bytes < COMPILED_BYTES_MIN or not self._code.is_compiled():
            return ReferenceReducer
        from ottla.columnar.group_loading.reducer import CompiledReducer

        return CompiledReducer

    def close(self) -> None:
        """End the process that compiles, if there is one."""
        self._code.close()
