"""Opening a partition's directory: which bytes of it are the log.

After a clean close it reads one segment's tail; otherwise it reads, batch by batch with their checksums, all that is not known to be
durable, cuts the log at the first batch that is not whole and sound, drops what lies behind, and rebuilds indexes, epochs and producers.
What is lost by that, or was lost before, is listed in `losses`; a log that must not lose anything is refused instead, and left as it is.

All below the recovery point of the directory's checkpoint is durable; without one, all below the newest producer snapshot: ours are written
only after every byte below their offset has been synced. Nothing below is removed, and no byte is moved: what is kept is as it was written.
Files that a crash left half swapped are renamed first (segment_swap.py). As Kafka's LogLoader.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypedDict, Unpack

from ottla.core.records.batch import BatchHeader
from ottla.storage.checkpoints import LEADER_EPOCHS_FILE, EpochStart, decode_leader_epochs, encode_leader_epochs
from ottla.storage.file_system import Files
from ottla.storage.log.damage import (
    Loss,
    all_below_start,
    damaged,
    dropped_behind_gap,
    gaps,
    opening_refused,
    refuse_older_format,
    shorter_than_durable,
    start_unknown_to,
    torn_tail,
    whole_batch_behind,
)
from ottla.storage.log.file_names import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, file_name, offsets_of
from ottla.storage.log.producer_recovery import ProducerRecovery
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import Segment
from ottla.storage.log.segment_swap import resolve_names
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.transaction_index import AbortedTransaction


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

    `log_start_offset` and `recovery_point` are the checkpoints of this partition; without a recovery point the newest snapshot counts.
    `refuses_losses`: StorageError, and the log is left as it is, where more would be cut than a write that a crash cut short.
    """

    log_start_offset: int
    recovery_point: int | None
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
            if not are_readable:
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
        if end_offset < durable_offset:
            self._lost(shorter_than_durable(self._directory, end_offset, durable_offset))

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
