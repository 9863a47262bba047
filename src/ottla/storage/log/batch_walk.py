"""The batches of a log file, one after the other, by their headers."""

from collections.abc import Iterator
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.records.batch import HEADER_BYTES, BatchHeader, crc_is_valid, read_header
from ottla.storage.file_system import Buffer, File
from ottla.storage.log.index import OffsetIndex

_HEADERS_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1024 * 1024


def walk_batches(log: File, position: int, end: int, *, verify_crc: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of a log file from `position` on; ends before the first that is not whole (and sound)."""
    window_bytes = _SCAN_BYTES if verify_crc else _HEADERS_BYTES
    window: Buffer = b""
    window_at = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = log.read(position, window_bytes), position
        try:
            header = read_header(window, position - window_at)
        except PeerError:
            return
        if position + header.size_bytes > end:
            return
        if verify_crc:
            if position + header.size_bytes > window_at + len(window):
                window, window_at = log.read(position, max(window_bytes, header.size_bytes)), position
            if not crc_is_valid(window, position - window_at, header.size_bytes):
                return
        yield position, header
        position += header.size_bytes


def ends_at_a_batch(log: File, base_offset: int, offsets: OffsetIndex) -> bool:
    """Whether the last index entry is that of a batch in the log: a cheap check of what a crash or another program damages first."""
    if not offsets:
        return True
    try:
        header = read_header(log.read(offsets.positions[-1], HEADER_BYTES))
    except PeerError:
        return False
    return header.last_offset - base_offset == offsets.relative_offsets[-1]
