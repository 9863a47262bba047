"""Which lane a cleaning takes: the columnar one for a large log, where its compiled code is there; else plain. Both give the same bytes."""

from typing import Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.cleaning.lane import Lane
from ottla.core.cleaning.plain import PlainLane

COLUMNAR_BYTES_MIN: Final = 16 << 20
"""A smaller log is clean by the plain lane before the compiled code is only loaded."""


class Lanes:
    """The lanes of one broker."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.cleaning", "ottla.columnar.cleaning_kernels", start)

    def choose(self, log_bytes: int) -> Lane:
        """A lane for one log of so many bytes, for the thread that asks; only in that thread is anything heavy loaded."""
        if log_bytes < COLUMNAR_BYTES_MIN or not self._code.is_there():
            return PlainLane()
        from ottla.columnar.cleaning import ColumnarLane

        return ColumnarLane()

    def close(self) -> None:
        """Ends the process that compiles, if there is one."""
        self._code.close()
