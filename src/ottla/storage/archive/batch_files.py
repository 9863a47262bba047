"""The log of one partition in an archive: batches appended to segment files, as a broker's own, which a kill leaves readable.

The files hold their own position: what follows the last whole batch is cut off when they are opened, and the next batch is fetched again.
No file is synced: after a loss of power the end is missing, and is fetched again too.
"""

from collections.abc import Sequence
from typing import Final

from ottla.core.records.merged_batches import Batch
from ottla.storage.file_system import File, Files
from ottla.storage.log.batch_walk import walk_batches
from ottla.storage.log.file_names import LOG_SUFFIX, file_name, offsets_of

SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A file that is larger is followed by another one."""


class PartitionFiles:
    """Appends to the folder of one partition, which is made if it does not exist. StorageError where the system refuses.

    `next_offset`: the offset behind the last batch, None before there is one.
    """

    def __init__(self, files: Files, folder: str, *, segment_bytes: int = SEGMENT_BYTES_MAX) -> None:
        self._files = files
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._file: File | None = None
        self.next_offset: int | None = None
        files.make_directory(folder)
        segments = offsets_of(files.list(folder), LOG_SUFFIX)
        for base_offset in reversed(segments):
            if self._open(base_offset):
                break

    def _open(self, base_offset: int) -> bool:
        """Open a segment for appending, without its torn end; False when nothing was left in it."""
        path = f"{self._folder}/{file_name(base_offset, LOG_SUFFIX)}"
        file = self._files.open(path)
        end = 0
        for position, header in walk_batches(file, 0, file.size, verify_crc=True):
            end, self.next_offset = position + header.size_bytes, header.next_offset
        if end == 0:
            file.close()
            self._files.remove(path)
            return False
        if end < file.size:
            file.truncate(end)
        self._file = file
        return True

    def append(self, batches: Sequence[Batch]) -> int:
        """Write whole batches, which follow those before; the number of bytes."""
        if not batches:
            return 0
        if self._file is None or self._file.size >= self._segment_bytes:
            self.close()
            self._file = self._files.open(f"{self._folder}/{file_name(batches[0].header.base_offset, LOG_SUFFIX)}")
        data = b"".join(batch.data for batch in batches)
        self._file.append(data)
        self.next_offset = batches[-1].header.next_offset
        return len(data)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file is not None:
            self._file.close()
            self._file = None
