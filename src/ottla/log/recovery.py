"""Opening a partition's directory: which bytes of it are the log, what is damaged, and its producers. As Kafka's LogLoader.

After a clean close it reads one segment's tail; otherwise it reads, batch by batch with their checksums, all that is not known to be
durable, cuts the log at the first batch that is not whole and sound, drops what lies behind, and rebuilds indexes, epochs and producers:
those from `.snapshot` and `.txnindex` files first, then from batches. What is lost by that, or was lost before, is listed in `losses`, as
sentences that name file, byte and offsets; a log that must not lose anything is refused instead, and left as it is.

All below the recovery point of the directory's checkpoint is durable; without one, all below the newest producer snapshot: ours are written
only after every byte below their offset has been synced. Nothing below is removed, and no byte is moved: what is kept is as it was written.
Files that a crash left half swapped are renamed first (segments.py).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple, TypedDict, Unpack
from zlib import crc32

from ottla.log.checkpoints import (
    HIGH_WATERMARK_FILE,
    INDEX_SUFFIX,
    LEADER_EPOCHS_FILE,
    LOG_START_FILE,
    LOG_SUFFIX,
    RECOVERY_POINT_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    EpochStart,
    decode_leader_epochs,
    encode_leader_epochs,
    file_name,
    offsets_of,
)
from ottla.log.file_system import Buffer, Files
from ottla.log.index import OFFSET_ENTRY_BYTES, AbortedTransaction, decode_transactions, encode_transactions
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import Segment
from ottla.log.segments import resolve_names
from ottla.log.settings import LogSettings
from ottla.log.transaction_state import read_end_marker
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import HEADER_BYTES, MAGIC, BatchHeader, crc_is_valid, read_header

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


def shorter_than_known(directory: str, end_offset: int, durable_offset: int, high_watermark: int) -> Loss:
    """A log that ends before an offset up to which it had been synced, or read."""
    was_durable = end_offset < durable_offset
    known = (
        f"was synced up to offset {durable_offset} (according to {RECOVERY_POINT_FILE} or a {SNAPSHOT_SUFFIX} file)"
        if was_durable
        else f"had records up to offset {high_watermark} (according to {HIGH_WATERMARK_FILE})"
    )
    lost_to = max(durable_offset, high_watermark) - 1
    return Loss(was_durable, f"{directory} ends at offset {end_offset}, but {known}: offsets {end_offset} to {lost_to} are lost")


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


class ProducerRecovery:
    """snapshot_offset: `producers` are as they were at this offset, plus the batches added since; -1: without a snapshot."""

    __slots__ = ("_directory", "_files", "aborted", "producers", "snapshot_offset")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.clear()

    def clear(self) -> None:
        """Forget everything: all batches must be added again."""
        self.snapshot_offset = -1
        self.producers = ProducerStates()
        self.aborted: list[AbortedTransaction] = []

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._directory}/{file_name(offset, suffix)}"

    def load_snapshot(self, names: Sequence[str], *, at_most: int | None = None) -> None:
        """Load the newest whole snapshot of these names (at or below offset `at_most`), and remove those above it."""
        self.snapshot_offset, self.producers = -1, ProducerStates()
        for offset in reversed(offsets_of(names, SNAPSHOT_SUFFIX)):
            path = self._path(offset, SNAPSHOT_SUFFIX)
            if at_most is None or offset <= at_most:
                producers = ProducerStates.decode(self._files.read_all(path))
                if producers is not None:
                    self.snapshot_offset, self.producers = offset, producers
                    return
            self._files.remove(path)

    def load_transactions(self, names: Sequence[str]) -> bool:
        """Load the transaction indexes among these names; False when one of them is damaged."""
        for base in offsets_of(names, TRANSACTION_INDEX_SUFFIX):
            aborted = decode_transactions(self._files.read_all(self._path(base, TRANSACTION_INDEX_SUFFIX)))
            if aborted is None:
                return False
            self.aborted += aborted
        return True

    def distrust_end(self) -> None:
        """After a crash: of the indexes, only what the snapshot covers is known to be whole; the rest follows from the batches."""
        self.aborted = [transaction for transaction in self.aborted if transaction.last_offset < self.snapshot_offset]

    def add(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Take over a batch of the log, unless the snapshot includes it."""
        if header.producer_id < 0 or header.base_offset < self.snapshot_offset:
            return
        marker = read_end_marker(segment.read_batch(position, header)) if header.is_control else None
        if marker is None:
            self.producers.note(header)
            return
        aborted = self.producers.end_transaction(header, marker)
        known = self.aborted
        if aborted is not None and not (known and known[-1].last_offset >= aborted.last_offset):
            known.append(aborted)

    def end_at(self, segments: Sequence[Segment], scanned: Sequence[Segment], end_offset: int, durable_offset: int) -> None:
        """The log ends at `end_offset`: correct the transaction indexes of the segments that were scanned.

        If the snapshot is newer than that, go back to an older one, and read `segments` from there on.
        """
        self.aborted = [transaction for transaction in self.aborted if transaction.last_offset < end_offset]
        ends = [*(segment.base_offset for segment in scanned[1:]), end_offset]
        for segment, segment_end in zip(scanned, ends):
            self._rewrite_index(segment, segment_end, durable_offset)
        if self.snapshot_offset > end_offset:
            self.load_snapshot(self._files.list(self._directory), at_most=end_offset)
            for segment in segments:
                for position, header in segment.batches():
                    self.add(segment, position, header)

    def _rewrite_index(self, segment: Segment, end_offset: int, durable_offset: int) -> None:
        """Replace a segment's transaction index by what its markers say."""
        path = segment.file(TRANSACTION_INDEX_SUFFIX)
        aborted = [transaction for transaction in self.aborted if segment.base_offset <= transaction.last_offset < end_offset]
        exists = self._files.exists(path)
        if aborted:
            self._files.replace(path, encode_transactions(aborted), sync=segment.base_offset < durable_offset)
        elif exists:
            self._files.remove(path)

    def remove_stray_snapshots(self, bases: Sequence[int]) -> None:
        """Remove the snapshots that are neither the newest nor at the base offset of a segment."""
        used = {*bases, self.snapshot_offset}
        for offset in offsets_of(self._files.list(self._directory), SNAPSHOT_SUFFIX):
            if offset not in used:
                self._files.remove(self._path(offset, SNAPSHOT_SUFFIX))


class Opened(NamedTuple):
    """How a log was found: closed in order or not, its end, how many bytes were torn (or behind something torn) and cut, what is lost."""

    clean: bool
    end_offset: int
    bytes_cut: int
    losses: tuple[Loss, ...] = ()


@dataclass(slots=True)
class Recovered:
    """A partition's log as found. `clean`: it was closed in order. `bytes_cut`: what was removed, torn or behind something torn.

    `durable_offset`: all below is known to be durable (-1: nothing is). `aborted`: the transactions of all its indexes, in order.
    `undurable`: segments before the last that no snapshot covers; they must be synced before the next one is written.
    """

    segments: list[Segment] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    durable_offset: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)
    epochs: list[EpochStart] = field(default_factory=list)
    clean: bool = True
    bytes_cut: int = 0
    undurable: list[Segment] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


class Known(TypedDict, total=False):
    """What is known of a log before it is opened.

    `log_start_offset`, `recovery_point` and `high_watermark` are the checkpoints of this partition; without a recovery point the newest
    snapshot counts.
    `refuses_losses`: StorageError, and the log is left as it is, where more would be cut than a write that a crash cut short.
    """

    log_start_offset: int
    recovery_point: int | None
    high_watermark: int
    refuses_losses: bool


def recover(files: Files, directory: str, settings: LogSettings, *, now_ms: int, **known: Unpack[Known]) -> Recovered:
    """Open what lies in `directory` (which may not exist); StorageError when the disk fails."""
    log_start_offset = known.get("log_start_offset", 0)
    recovery = _Recovery(files, directory, settings, now_ms, known)
    try:
        found = recovery.run()
    except BaseException:
        recovery.close()
        raise
    base_offset = found.segments[0].base_offset if found.segments else 0
    found.start_offset = max(base_offset, log_start_offset)
    if found.end_offset < found.start_offset:
        if found.segments and base_offset < found.end_offset:
            found.losses.append(all_below_start(directory, base_offset, found.end_offset, log_start_offset))
        # All that is left lies below the log's start: begin again there, since offsets up to it have been assigned.
        for segment in found.segments:
            segment.remove()
        for offset in offsets_of(files.list(directory), SNAPSHOT_SUFFIX):
            files.remove(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
        return Recovered(start_offset=found.start_offset, end_offset=found.start_offset, epochs=found.epochs, losses=found.losses)
    return found


class _Recovery:
    def __init__(self, files: Files, directory: str, settings: LogSettings, now_ms: int, known: Known) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._now_ms = now_ms
        self._found = Recovered()
        self._producers = ProducerRecovery(files, directory)
        self._log_start_offset = known.get("log_start_offset", 0)
        self._recovery_point = known.get("recovery_point")
        self._high_watermark = known.get("high_watermark", 0)
        self._refuses_losses = known.get("refuses_losses", False)
        self._durable_offset = -1

    def run(self) -> Recovered:
        found = self._found
        names = self._remove_orphans(resolve_names(self._files, self._directory))
        bases = offsets_of(names, LOG_SUFFIX)
        epochs = self._load_epochs() if LEADER_EPOCHS_FILE in names else None
        found.epochs = epochs or []
        if not bases:
            self._check_end(0, self._recovery_point or 0)
            return found
        unknown_start = start_unknown_to(found.epochs, self._directory, bases[0], self._log_start_offset)
        if unknown_start is not None:
            found.losses.append(unknown_start)
        found.segments = [self._segment(base) for base in self._without_deleted(bases)]
        producers = self._producers
        producers.load_snapshot(names)
        self._durable_offset = producers.snapshot_offset if self._recovery_point is None else self._recovery_point
        are_readable = producers.load_transactions(names) and epochs is not None
        found.clean = are_readable and self._was_closed()
        if not found.clean:
            if are_readable:
                producers.distrust_end()
            else:
                producers.clear()
            self._recover(from_offset=min(producers.snapshot_offset, self._durable_offset) if are_readable else -1)
            if found.epochs != epochs:
                self._files.replace(self._path(LEADER_EPOCHS_FILE), encode_leader_epochs(found.epochs), sync=False)
        if found.clean:
            self._check_end(found.end_offset, self._durable_offset)
        if not self._settings.is_compacted:
            found.losses += gaps(self._files, found.segments)
        found.durable_offset = found.end_offset if found.clean else min(self._durable_offset, found.end_offset)
        found.producers, found.aborted = producers.producers, producers.aborted
        found.producers.expire(now_ms=self._now_ms, after_ms=self._settings.producer_id_expiration_ms)
        producers.remove_stray_snapshots([segment.base_offset for segment in found.segments])
        return found

    def _lost(self, loss: Loss, *, is_a_write_cut_short: bool = False) -> None:
        """Note what is lost, before anything is cut; StorageError where nothing may be lost."""
        if self._refuses_losses and not is_a_write_cut_short:
            raise opening_refused(self._directory, loss)
        self._found.losses.append(loss)

    def _check_end(self, end_offset: int, durable_offset: int) -> None:
        end_offset = max(end_offset, self._log_start_offset)
        if end_offset < max(durable_offset, self._high_watermark):
            self._lost(shorter_than_known(self._directory, end_offset, durable_offset, self._high_watermark))

    def close(self) -> None:
        """Close the files."""
        for segment in self._found.segments:
            segment.close()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _segment(self, base: int) -> Segment:
        interval = self._settings.index_interval_bytes
        return Segment(self._files, self._directory, base, index_interval_bytes=interval, made_ms=self._now_ms)

    def _without_deleted(self, bases: list[int]) -> list[int]:
        """Remove segments wholly below the log's start: they were deleted, although a crash may have brought their files back."""
        first = max(0, bisect_right(bases, self._log_start_offset) - 1)
        for base in bases[:first]:
            self._segment(base).remove()
        return bases[first:]

    def _remove_orphans(self, names: list[str]) -> list[str]:
        """Remove indexes whose log is gone; the names that are left."""
        logs = set(offsets_of(names, LOG_SUFFIX))
        orphans = {file_name(base, suffix) for suffix in SEGMENT_SUFFIXES for base in offsets_of(names, suffix) if base not in logs}
        for name in orphans:
            self._files.remove(self._path(name))
        return [name for name in names if name not in orphans]

    def _load_epochs(self) -> list[EpochStart] | None:
        return decode_leader_epochs(self._files.read_all(self._path(LEADER_EPOCHS_FILE)))

    def _was_closed(self) -> bool:
        """Whether the last segment ends, at a batch's end, exactly at the newest snapshot's offset."""
        last = self._found.segments[-1]
        if self._producers.snapshot_offset < last.base_offset or not last.load_indexes():
            return False
        end = last.offsets().positions[-1] if last.offsets() else 0
        next_offset = last.base_offset
        for position, header in last.batches(end):
            end, next_offset = position + header.size_bytes, header.next_offset
        self._found.end_offset = next_offset
        return end == last.size and next_offset == self._producers.snapshot_offset <= self._durable_offset

    def _recover(self, *, from_offset: int) -> None:
        """Read everything from the segment that holds `from_offset` on, and cut at the first damage in what may not be durable."""
        found = self._found
        bases = [segment.base_offset for segment in found.segments]
        first = max(0, bisect_right(bases, from_offset) - 1)
        found.epochs = [epoch for epoch in found.epochs if epoch.start_offset < found.segments[first].base_offset]
        found.end_offset = found.segments[first].base_offset
        for number in range(first, len(found.segments)):
            segment = found.segments[number]
            if number + 1 < len(bases) and bases[number + 1] <= self._durable_offset:
                self._read_durable(segment)
                found.end_offset = bases[number + 1]
                continue
            if not self._follows(segment):
                self._lost(dropped_behind_gap(found.segments[number:], found.end_offset))
                self._drop_from(number)
                break
            size = segment.size
            found.end_offset = segment.recount(
                verify_crc=True, may_have_gaps=self._may_have_gaps(segment), on_batch=partial(self._add, segment)
            )
            is_whole = segment.size == size
            if not is_whole:
                refuse_older_format(segment, self._directory)
                self._note_damage(segment, size, found.segments[number + 1 :])
                found.bytes_cut += size - segment.size
                segment.truncate(segment.size)
                segment.sync()
            found.undurable.append(segment)
            if not is_whole:
                self._drop_from(number + 1)
                break
        self._check_end(found.end_offset, self._durable_offset)
        found.undurable = [segment for segment in found.undurable if segment is not found.segments[-1]]
        for segment in found.undurable:
            segment.rewrite_indexes(sync=False)
        # The last one's are written when it is full or closed: creating files takes most of the time when a thousand logs are recovered.
        found.segments[-1].replace_index_files_later()
        self._producers.end_at(found.segments, found.segments[first:], found.end_offset, self._durable_offset)

    def _note_damage(self, segment: Segment, size: int, rest: list[Segment]) -> None:
        """A segment's sound part ends before its file does: a write that a crash cut short, if nothing sound is behind it."""
        offset = self._found.end_offset
        behind = whole_batch_behind(segment.log().read, segment.size, size, offset)
        if behind is None and not rest and offset >= self._durable_offset:
            self._lost(torn_tail(segment, size, offset), is_a_write_cut_short=True)
        else:
            self._lost(damaged(segment, size, offset, behind, rest, self._durable_offset))

    def _read_durable(self, segment: Segment) -> None:
        """Read producers and epochs of a segment that no crash can have damaged: nothing in it is cut, and what follows it is kept."""
        for position, header in segment.batches():
            self._add(segment, position, header)

    def _may_have_gaps(self, segment: Segment) -> bool:
        """What is missing below a durable offset was cleaned or deleted; above it, it was lost."""
        return self._settings.is_compacted or segment.base_offset <= self._durable_offset

    def _follows(self, segment: Segment) -> bool:
        """A segment begins where the one before ended, or behind a gap that compaction left."""
        gap = segment.base_offset - self._found.end_offset
        return gap == 0 or (gap > 0 and self._may_have_gaps(segment))

    def _add(self, segment: Segment, position: int, header: BatchHeader) -> None:
        epochs = self._found.epochs
        if not epochs or header.leader_epoch > epochs[-1].epoch:
            epochs.append(EpochStart(header.leader_epoch, header.base_offset))
        self._producers.add(segment, position, header)

    def _drop_from(self, number: int) -> None:
        """Remove the segments from `number` on, durably: they must not come back after the next crash."""
        dropped = self._found.segments[number:]
        del self._found.segments[number:]
        for segment in dropped:
            self._found.bytes_cut += segment.size
            segment.remove()
        if dropped:
            self._files.sync_directory(self._directory)
