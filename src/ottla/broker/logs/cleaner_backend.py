"""Which backend a cleaning uses: the compiled one for a large log, if its machine code is available; else the reference backend."""

from typing import Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.cleaning.backend import CleaningBackend
from ottla.core.cleaning.reference import ReferenceBackend

COMPILED_BYTES_MIN: Final = 16 << 20
"""A smaller log is clean by the reference backend before the compiled code is only loaded."""


class CleanerBackends:
    """The backends of one broker."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.cleaning.backend", "ottla.columnar.cleaning.kernels", start)

    def choose(self, log_bytes: int) -> CleaningBackend:
        """A backend for one log of so many bytes, for the calling thread, which loads the compiled code when it is needed."""
        if log_bytes < COMPILED_BYTES_MIN or not self._code.is_compiled():
            return ReferenceBackend()
        from ottla.columnar.cleaning.backend import CompiledBackend

        return CompiledBackend()

    def close(self) -> None:
        """Stop the process that compiles, if there is one."""
        self._code.close()
