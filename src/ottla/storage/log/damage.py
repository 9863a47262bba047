"""Damage that is found when a log is opened (damaged, missing or truncated parts), as sentences that name file, byte and offsets.

It reads and describes; recovery decides what is cut and which log is not opened.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from ottla.core.errors import PeerError, StorageError
from ottla.core.records.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, read_header
from ottla.storage.checkpoints import LOG_START_FILE, RECOVERY_POINT_FILE, EpochStart
from ottla.storage.file_system import Buffer, Files
from ottla.storage.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX
from ottla.storage.log.index import OFFSET_ENTRY_BYTES
from ottla.storage.log.segment import Segment

_MAGIC_AT: Final = 16
_SEARCH_BYTES: Final = 4 * 1024 * 1024
_CANDIDATES_MAX: Final = 1000
_OFFSETS_AHEAD_MAX: Final = 1 << 31
_INDEX_ENTRY: Final = Struct(">II")
_WALK_BYTES_MAX: Final = 16 * 1024 * 1024

# Offset (skipped), size, checksum, format; the checksum covers all from the format on.
_OLDER_MESSAGE: Final = Struct(">8xiIb")
_OLDER_LENGTH_MIN: Final = 14
_OLDER_CRC_FROM: Final = 16
_CRC_BYTES: Final = 4


class Loss(NamedTuple):
    """Something that is no longer in a log, as a sentence. `was_durable`: it had been synced, so that no crash explains it."""

    was_durable: bool
    sentence: str


def whole_batch_behind(read: Callable[[int, int], Buffer], position: int, size: int, offset: int) -> BatchHeader | None:
    """A sound batch with larger offsets behind the damaged place `position`, where offset `offset` should be; None when none is found.

    A write that a crash cut short has none behind it; where there is one, the bytes at `position` were whole once. `read` takes position
    and length; at most 4 MiB are searched.
    """
    data = bytes(read(position, min(size - position, _SEARCH_BYTES)))
    candidates = 0
    found = data.find(MAGIC, _MAGIC_AT + 1)
    while 0 <= found <= len(data) - (HEADER_BYTES - _MAGIC_AT) and candidates < _CANDIDATES_MAX:
        at = found - _MAGIC_AT
        header = _plausible(data, at, offset)
        if header is not None:
            candidates += 1
            if crc_is_valid(data, at, header.size_bytes):
                return header
        found = data.find(MAGIC, found + 1)
    return None


def _plausible(data: bytes, at: int, offset: int) -> BatchHeader | None:
    try:
        header = read_header(data, at)
    except PeerError:
        return None
    is_next = offset < header.base_offset < offset + _OFFSETS_AHEAD_MAX
    return header if is_next and at + header.size_bytes <= len(data) else None


def torn_tail(segment: Segment, size: int, offset: int) -> Loss:
    """A last write that a crash cut short, and that had not been synced."""
    cut = size - segment.size
    place = f"{segment.path}{LOG_SUFFIX}, from byte {segment.size} on"
    return Loss(was_durable=False, sentence=f"{cut} bytes of a torn tail were cut; the log ends at offset {offset} ({place})")


def damaged(segment: Segment, size: int, offset: int, behind: BatchHeader | None, rest: Sequence[Segment], durable_offset: int) -> Loss:
    """A place in the middle of a log where no sound batch is: all from there on is cut."""
    cut = size - segment.size + sum(each.size for each in rest)
    parts = [f"{segment.path}{LOG_SUFFIX} is damaged at byte {segment.size}: {cut} bytes from offset {offset} on are lost"]
    if behind is not None:
        parts.append(f"among them whole batches from offset {behind.base_offset} on")
    if rest:
        parts.append(f"and the files from {rest[0].path}{LOG_SUFFIX} to {rest[-1].path}{LOG_SUFFIX}")
    return Loss(was_durable=offset < durable_offset, sentence=", ".join(parts))


def dropped_behind_gap(rest: Sequence[Segment], offset: int) -> Loss:
    """Segments that do not begin where the log before them ends."""
    cut = sum(each.size for each in rest)
    first = rest[0]
    what = f"offsets {offset} to {first.base_offset - 1} are missing" if first.base_offset > offset else "its offsets are given twice"
    sentence = f"{first.path}{LOG_SUFFIX} does not follow offset {offset}: {what}; it and what follows, {cut} bytes, are lost"
    return Loss(was_durable=False, sentence=sentence)


def shorter_than_durable(directory: str, end_offset: int, durable_offset: int) -> Loss:
    """A log that ends before an offset up to which it had been synced."""
    sentence = (
        f"{directory} ends at offset {end_offset}, but was synced up to offset {durable_offset} (according to {RECOVERY_POINT_FILE} or a"
        f" {SNAPSHOT_SUFFIX} file): offsets {end_offset} to {durable_offset - 1} are lost"
    )
    return Loss(was_durable=True, sentence=sentence)


def start_unknown_to(epochs: Sequence[EpochStart], directory: str, base_offset: int, log_start_offset: int) -> Loss | None:
    """A log start that only the checkpoint knows: when records are deleted, `leader-epoch-checkpoint` gets the new start, too."""
    if log_start_offset <= base_offset or (epochs and epochs[0].start_offset >= log_start_offset):
        return None
    sentence = (
        f"{LOG_START_FILE} lets the log start at offset {log_start_offset}, which no other file of {directory} has: offsets"
        f" {base_offset} to {log_start_offset - 1} are no longer read, and files that hold nothing else are removed"
    )
    return Loss(was_durable=False, sentence=sentence)


def all_below_start(directory: str, base_offset: int, end_offset: int, log_start_offset: int) -> Loss:
    """A log that ends before its start by the checkpoint. Apache Kafka deletes it too: offsets up to there may have been given out."""
    sentence = (
        f"{LOG_START_FILE} lets the log start at offset {log_start_offset}, but {directory} ends at offset {end_offset}: offsets"
        f" {base_offset} to {end_offset - 1} were removed, and the log continues at offset {log_start_offset}"
    )
    return Loss(was_durable=True, sentence=sentence)


def gaps(files: Files, segments: Sequence[Segment]) -> Iterator[Loss]:
    """Offsets between one segment's last batch and the next segment, of a log that is not compacted. Reads a few kB of each segment."""
    for segment, following in pairwise(segments):
        end_offset = _end_offset(files, segment)
        if end_offset is not None and end_offset < following.base_offset:
            sentence = (
                f"offsets {end_offset} to {following.base_offset - 1} are missing between {segment.path}{LOG_SUFFIX} and"
                f" {following.path}{LOG_SUFFIX}: a file is gone or was shortened, unless the topic was compacted once"
            )
            yield Loss(was_durable=True, sentence=sentence)


def _end_offset(files: Files, segment: Segment) -> int | None:
    """The offset behind a segment's last batch, found from the last index entry on; None when the index does not lead there."""
    path = segment.file(INDEX_SUFFIX)
    if not files.exists(path):
        return None
    index_bytes = files.size(path)
    position = 0
    if index_bytes >= OFFSET_ENTRY_BYTES:
        last_entry = files.read_range(path, (index_bytes // OFFSET_ENTRY_BYTES - 1) * OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES)
        _, position = _INDEX_ENTRY.unpack(last_entry)
    if not 0 <= segment.size - position <= _WALK_BYTES_MAX:
        return None
    end_offset, end = segment.base_offset, position
    for at, header in segment.batches(position):
        end_offset, end = header.next_offset, at + header.size_bytes
    segment.close()
    return end_offset if end == segment.size else None


def refuse_older_format(segment: Segment, directory: str) -> None:
    """StorageError when a message of format 0 or 1 (before Kafka 0.11) begins at the end of a segment's sound part: that is no damage."""
    head = segment.log().read(segment.size, _OLDER_MESSAGE.size)
    if len(head) < _OLDER_MESSAGE.size:
        return
    length, crc, magic = _OLDER_MESSAGE.unpack(head)
    if magic not in (0, 1) or length < _OLDER_LENGTH_MIN:
        return
    if crc32(segment.log().read(segment.size + _OLDER_CRC_FROM, length - _CRC_BYTES)) == crc:
        raise StorageError(
            f"{directory} holds messages of format {magic}, from before Kafka 0.11, which are not read here;"
            " copy the topic with a Kafka version that rewrites them"
        )


def opening_refused(directory: str, loss: Loss) -> StorageError:
    """For a log that must not lose anything silently: why it is not opened, and what can be done."""
    return StorageError(
        f"{loss.sentence}. Nothing was changed: restore the data directory from a copy. To go on without what is lost, cut the file at the"
        f" damaged byte (truncate -s) and remove {RECOVERY_POINT_FILE} and {directory}/*{SNAPSHOT_SUFFIX}"
    )
