"""A file read through a window that moves forward: large files take the memory of one window.

The size is that at the beginning: what a running broker appends later is not read.
"""

from typing import Final

from ottla.storage.log.segment_facts import Readable

WINDOW_BYTES: Final = 1 << 20


class Window:
    """Ranges of the file at `path`. StorageError where the system refuses."""

    __slots__ = ("_buffer", "_files", "_start", "path", "size")

    def __init__(self, files: Readable, path: str, *, size_max: int | None = None) -> None:
        self._files = files
        self._start = 0
        self._buffer = b""
        self.path = path
        self.size = files.size(path)
        if size_max is not None:
            self.size = min(self.size, size_max)

    def read(self, position: int, length: int) -> memoryview:
        """`length` bytes from `position` on, fewer where the file ends, none before it begins; no copy while they are in the window."""
        length = min(length, self.size - position)
        if position < 0 or length <= 0:
            return memoryview(b"")
        if not self._start <= position <= position + length <= self._start + len(self._buffer):
            self._buffer = self._files.read_range(self.path, position, max(length, min(WINDOW_BYTES, self.size - position)))
            self._start = position
        at = position - self._start
        return memoryview(self._buffer)[at : at + length]
