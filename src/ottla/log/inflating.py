"""Compressed records, decompressed by a thread of their own while they are read: memory holds what lies in a pipe, however many there are.

The codecs' library inflates into memory or into a file, and the only file that holds little is a pipe.
"""

from threading import Thread
from types import TracebackType
from typing import Any

import cramjam

from ottla.log.files import pipe
from ottla.protocol.errors import PeerError
from ottla.protocol.records.compression import Compressed, inflate_to, too_much


class Inflating:
    """A context in which the bytes can be read once. OSError when there is no descriptor for it."""

    def __init__(self, section: Compressed, *, output_bytes_max: int) -> None:
        self._section = section
        self._bytes_max = output_bytes_max
        self._bytes = 0
        self._problem: str | None = None
        # A mode for each: the library would create and truncate.
        self._reader, writer = pipe(lambda path: cramjam.File(path, read=False, write=True, truncate=False))
        self._thread = Thread(target=self._inflate, args=(writer,), name="ottla-inflating", daemon=True)
        del writer
        self._thread.start()

    def _inflate(self, writer: Any) -> None:
        try:
            inflate_to(self._section.codec, self._section.data, writer)
        except PeerError as error:
            self._problem = str(error)  # the exception itself would keep the writing end open
        # The writing end is closed with the last reference to `writer`, and the reader sees the end.

    def read_into(self, buffer: memoryview) -> int:
        """Fills at least a part of `buffer`: how many bytes, 0 behind the last one. PeerError when they are damaged or too many."""
        count: int = self._reader.readinto(buffer) or 0
        self._bytes += count
        if self._bytes > self._bytes_max:
            raise too_much(self._section.codec, self._bytes_max)
        if count == 0:
            self._thread.join()
            if self._problem is not None:
                raise PeerError(self._problem)
        return count

    def __enter__(self) -> "Inflating":
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None) -> None:
        self._reader.close()  # a thread that still writes ends with an error
        self._thread.join()
