"""The offset index and the time index of one segment, in memory, and their files `.index` and `.timeindex`.

The files may lack the newest entries: whatever a crash loses of them, recovery rebuilds from the log. Which batch gets an entry, and when
the indexes are rebuilt, the segment decides.
"""

from ottla.storage.file_system import Files
from ottla.storage.log.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from ottla.storage.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex


class SegmentIndexes:
    """`offsets`, `times`: None while they are not in memory. `path`, `file_suffix`: what stands before and behind `.index`."""

    __slots__ = ("_file_bytes", "_file_suffix", "_files", "_path", "_written_offsets", "_written_times", "offsets", "times")

    def __init__(self, files: Files, path: str, file_suffix: str) -> None:
        self._files = files
        self._path = path
        self._file_suffix = file_suffix
        self.offsets: OffsetIndex | None = None
        self.times: TimeIndex | None = None
        self._file_bytes: tuple[int, int] | None = None
        self._written_offsets = self._written_times = 0

    def _file(self, kind: str) -> str:
        return self._path + kind + self._file_suffix

    def clear(self) -> tuple[OffsetIndex, TimeIndex]:
        """New, empty indexes. The next `write` replaces what the files hold."""
        self.offsets, self.times = OffsetIndex(), TimeIndex()
        self.replace_files_later()
        return self.offsets, self.times

    def replace_files_later(self) -> None:
        """The next `write` replaces what the files hold, whatever it is."""
        self._file_bytes = None
        self._written_offsets = self._written_times = 0

    def drop(self) -> None:
        """Free the memory of indexes that are on the disk."""
        self.offsets = self.times = None

    def read(self, log_bytes: int) -> tuple[OffsetIndex, TimeIndex] | None:
        """The indexes of a log of `log_bytes` from their files; None when one is missing or damaged."""
        offsets = times = None
        if self._files.exists(self._file(INDEX_SUFFIX)):
            offsets = OffsetIndex.decode(self._files.read_all(self._file(INDEX_SUFFIX)), log_bytes=log_bytes)
        if self._files.exists(self._file(TIME_INDEX_SUFFIX)):
            times = TimeIndex.decode(self._files.read_all(self._file(TIME_INDEX_SUFFIX)))
        return None if offsets is None or times is None else (offsets, times)

    def use(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Take indexes that were read from the files."""
        self.offsets, self.times = offsets, times
        self._written_offsets, self._written_times = len(offsets), len(times)

    def write(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Append to the files what they lack."""
        self._file_bytes = None
        if len(offsets) > self._written_offsets or not self._written_offsets:
            self._extend(INDEX_SUFFIX, self._written_offsets * OFFSET_ENTRY_BYTES, offsets.encode(self._written_offsets))
            self._written_offsets = len(offsets)
        if len(times) > self._written_times or not self._written_times:
            self._extend(TIME_INDEX_SUFFIX, self._written_times * TIME_ENTRY_BYTES, times.encode(self._written_times))
            self._written_times = len(times)

    def _extend(self, suffix: str, size: int, data: bytes) -> None:
        file = self._files.open(self._file(suffix))
        try:
            if file.size != size:
                file.truncate(size)  # what an earlier write left behind that failed
            file.append(data)
        finally:
            file.close()

    def replace(self, offsets: OffsetIndex, times: TimeIndex, *, sync: bool) -> None:
        """Replace the files by these indexes."""
        self._file_bytes = None
        self._files.replace(self._file(INDEX_SUFFIX), offsets.encode(), sync=sync)
        self._files.replace(self._file(TIME_INDEX_SUFFIX), times.encode(), sync=sync)
        self._written_offsets, self._written_times = len(offsets), len(times)

    def sync(self) -> None:
        """Make durable what `write` wrote; an empty file has nothing to lose."""
        if self._written_offsets:
            self._files.sync(self._file(INDEX_SUFFIX))
        if self._written_times:
            self._files.sync(self._file(TIME_INDEX_SUFFIX))

    def file_bytes(self) -> tuple[int, int] | None:
        """The sizes of the two files; None when one is missing."""
        if self._file_bytes is None:
            if not (self._files.exists(self._file(INDEX_SUFFIX)) and self._files.exists(self._file(TIME_INDEX_SUFFIX))):
                return None
            self._file_bytes = self._files.size(self._file(INDEX_SUFFIX)), self._files.size(self._file(TIME_INDEX_SUFFIX))
        return self._file_bytes
