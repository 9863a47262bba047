"""Lines of JSON in numbered files of one folder, appended several at once: what a kill leaves of a last line is cut off or ignored.

It does not interpret the lines. A line that is too long is skipped and counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.core.errors import StorageError
from ottla.storage.dump.window import Window
from ottla.storage.file_system import File, Files
from ottla.storage.log.file_names import file_name, offsets_of
from ottla.storage.log.segment_facts import Readable

LINES_SUFFIX: Final = ".jsonl"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""A file that is larger is followed by another one."""
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A group of 100,000 members takes less."""
_CHUNK_BYTES: Final = 1 << 20


class LineFiles:
    """Appends lines to the last file of a folder, which is made if it does not exist. StorageError where the system refuses."""

    def __init__(self, files: Files, folder: str, *, file_bytes: int = FILE_BYTES_MAX) -> None:
        self._files = files
        self._folder = folder
        self._file_bytes = file_bytes
        files.make_directory(folder)
        self._number = max(offsets_of(files.list(folder), LINES_SUFFIX), default=0)
        self._file = self._open()
        _cut_torn_line(self._file)

    def _open(self) -> File:
        return self._files.open(f"{self._folder}/{file_name(self._number, LINES_SUFFIX)}")

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines, none of which holds a newline, with one call; the number of bytes."""
        if self._file.size >= self._file_bytes:
            self._file.close()
            self._number += 1
            self._file = self._open()
        data = b"".join(line + b"\n" for line in lines)
        if data:
            self._file.append(data)
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cut_torn_line(file: File) -> None:
    end = file.size
    while end > 0:
        start = max(0, end - _CHUNK_BYTES)
        newline = file.read(start, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < file.size:
        file.truncate(end)


@dataclass(slots=True)
class LineProblems:
    """`torn_bytes`: of last lines without an end. `long_lines`: those that were skipped for their length."""

    torn_bytes: int = 0
    long_lines: int = 0
    unreadable_files: tuple[str, ...] = ()


def read_lines(files: Readable, folder: str, problems: LineProblems, *, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[bytes]:
    """Every whole line of a folder's files, in order, without its newline."""
    for number in offsets_of(files.list(folder), LINES_SUFFIX):
        path = f"{folder}/{file_name(number, LINES_SUFFIX)}"
        try:
            yield from _lines_of(Window(files, path), problems, line_bytes_max)
        except StorageError as error:
            problems.unreadable_files += (str(error),)


def _lines_of(window: Window, problems: LineProblems, line_bytes_max: int) -> Iterator[bytes]:
    rest, is_long = bytearray(), False
    for position in range(0, window.size, _CHUNK_BYTES):
        *whole, last = bytes(window.read(position, _CHUNK_BYTES)).split(b"\n")
        for line in whole:
            if is_long or len(rest) + len(line) > line_bytes_max:
                problems.long_lines += 1
            else:
                yield bytes(rest) + line
            rest, is_long = bytearray(), False
        if not is_long:
            rest += last
            is_long = len(rest) > line_bytes_max
            if is_long:
                rest.clear()
    problems.torn_bytes += len(rest)
