"""Which lane reads the offsets topic when groups are loaded: the columnar one for large logs, where its code is there; else plain.

Both come to the same.
"""

from typing import Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.core.groups.log_fold import Lane, PlainFold

COLUMNAR_BYTES_MIN: Final = 4 << 20
"""Less is read by the plain lane before the compiled code is only loaded; a million compressed commits are some 14 MB."""


class LoadingLanes:
    """The lanes of one broker's loading; any thread may ask."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.columnar.group_loading", "ottla.columnar.group_loading_kernels", start)

    def choose(self, log_bytes: int) -> Lane:
        """The lane for logs of so many bytes together; only the thread that asks waits while anything heavy is loaded."""
        if log_bytes < COLUMNAR_BYTES_MIN or not self._code.is_there():
            return PlainFold
        from ottla.columnar.group_loading import ColumnarFold

        return ColumnarFold

    def close(self) -> None:
        """Ends the process that compiles, if there is one."""
        self._code.close()
