"""Opening a partition's directory: which bytes of it are the log.

After a clean close it looks at one segment's tail; otherwise it reads, batch by batch with their checksums, all that is not known to be
durable, cuts the log at the first batch that is not whole and sound, drops what lies behind, and rebuilds indexes, epochs and producers.
What is lost by that, or was lost before, is listed in `losses`; a log that must not lose anything is refused instead, and left as it is.

What is durable the directory's recovery point tells; without one, the newest producer snapshot does: ours are written only after every
byte below their offset has been synced. Nothing below is removed, and no byte is moved: what is kept is as it was written. Segments that a
crash left half exchanged are sorted out first (swapping.py).
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypedDict, Unpack
from zlib import crc32

from ottla.core.errors import StorageError
from ottla.core.records.batch import BatchHeader
from ottla.storage.checkpoints import LEADER_EPOCHS_FILE, EpochStart, decode_leader_epochs, encode_leader_epochs
from ottla.storage.damage import (
    Loss,
    all_below_start,
    damaged,
    dropped_behind_gap,
    gaps,
    refusal,
    shorter_than_durable,
    start_unknown_to,
    torn_tail,
    whole_batch_behind,
)
from ottla.storage.files import Files
from ottla.storage.markers import read_end_marker
from ottla.storage.producer_state import SNAPSHOT_SUFFIX, ProducerStates
from ottla.storage.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, Segment, file_name
from ottla.storage.settings import LogSettings
from ottla.storage.swapping import resolve_names
from ottla.storage.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction, decode_transactions, encode_transactions

_NAME_DIGITS: Final = 20
# Offset (skipped), size, checksum, format; the checksum covers all from the format on.
_OLDER_MESSAGE: Final = Struct(">8xiIb")
_OLDER_LENGTH_MIN: Final = 14
_OLDER_CRC_FROM: Final = 16
_CRC_BYTES: Final = 4


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
    `undurable`: segments before the last that no snapshot vouches for; they must be synced before the next one is written.
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

    `log_start_offset` and `recovery_point` are the directory's checkpoints of this partition; without a recovery point the snapshots tell.
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
        # All that is left lies below the log's start: begin anew there, since offsets up to it have been given out.
        for segment in found.segments:
            segment.remove()
        for offset in _offsets(files.list(directory), SNAPSHOT_SUFFIX):
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
        self._snapshot_offset = -1
        self._log_start_offset = known.get("log_start_offset", 0)
        self._recovery_point = known.get("recovery_point")
        self._refuses_losses = known.get("refuses_losses", False)
        self._durable_offset = -1

    def run(self) -> Recovered:
        found = self._found
        names = self._remove_orphans(resolve_names(self._files, self._directory))
        bases = _offsets(names, LOG_SUFFIX)
        epochs = self._load_epochs() if LEADER_EPOCHS_FILE in names else None
        found.epochs = epochs or []
        if not bases:
            self._check_end(0, self._recovery_point or 0)
            return found
        unknown_start = start_unknown_to(found.epochs, self._directory, bases[0], self._log_start_offset)
        if unknown_start is not None:
            found.losses.append(unknown_start)
        found.segments = [self._segment(base) for base in self._without_deleted(bases)]
        self._load_snapshot(_offsets(names, SNAPSHOT_SUFFIX))
        self._durable_offset = self._snapshot_offset if self._recovery_point is None else self._recovery_point
        are_readable = self._load_transactions(names) and epochs is not None
        found.clean = are_readable and self._was_closed()
        if not found.clean:
            if not are_readable:
                self._snapshot_offset, found.producers, found.aborted = -1, ProducerStates(), []
            self._recover(from_offset=min(self._snapshot_offset, self._durable_offset) if are_readable else -1)
            if found.epochs != epochs:
                self._files.replace(self._path(LEADER_EPOCHS_FILE), encode_leader_epochs(found.epochs), sync=False)
        if found.clean:
            self._check_end(found.end_offset, self._durable_offset)
        if not self._settings.is_compacted:
            found.losses += gaps(self._files, found.segments)
        found.durable_offset = found.end_offset if found.clean else min(self._durable_offset, found.end_offset)
        found.producers.expire(now_ms=self._now_ms, after_ms=self._settings.producer_id_expiration_ms)
        self._remove_stray_snapshots()
        return found

    def _lost(self, loss: Loss, *, is_a_write_cut_short: bool = False) -> None:
        """Note what is lost, before anything is cut; StorageError where that may not be."""
        if self._refuses_losses and not is_a_write_cut_short:
            raise refusal(self._directory, loss)
        self._found.losses.append(loss)

    def _check_end(self, end_offset: int, durable_offset: int) -> None:
        end_offset = max(end_offset, self._log_start_offset)
        if end_offset < durable_offset:
            self._lost(shorter_than_durable(self._directory, end_offset, durable_offset))

    def close(self) -> None:
        """Give the files back."""
        for segment in self._found.segments:
            segment.close()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _segment(self, base: int) -> Segment:
        interval = self._settings.index_interval_bytes
        return Segment(self._files, self._directory, base, index_interval_bytes=interval, made_ms=self._now_ms)

    def _without_deleted(self, bases: list[int]) -> list[int]:
        """What lies wholly below the log's start was deleted, although a crash may have brought its files back: nothing is read from it."""
        first = max(0, bisect_right(bases, self._log_start_offset) - 1)
        for base in bases[:first]:
            self._segment(base).remove()
        return bases[first:]

    def _remove_orphans(self, names: list[str]) -> list[str]:
        """Indexes whose log is gone go, too."""
        logs = set(_offsets(names, LOG_SUFFIX))
        orphans = {file_name(base, suffix) for suffix in SEGMENT_SUFFIXES for base in _offsets(names, suffix) if base not in logs}
        for name in orphans:
            self._files.remove(self._path(name))
        return [name for name in names if name not in orphans]

    def _load_transactions(self, names: list[str]) -> bool:
        """Take what the transaction indexes tell; False when one of them is damaged."""
        for base in _offsets(names, TRANSACTION_INDEX_SUFFIX):
            aborted = decode_transactions(self._files.read_all(self._path(file_name(base, TRANSACTION_INDEX_SUFFIX))))
            if aborted is None:
                return False
            self._found.aborted += aborted
        return True

    def _load_epochs(self) -> list[EpochStart] | None:
        return decode_leader_epochs(self._files.read_all(self._path(LEADER_EPOCHS_FILE)))

    def _load_snapshot(self, offsets: list[int], *, at_most: int | None = None) -> None:
        """Take the newest snapshot that is whole; the others of no use are removed."""
        self._snapshot_offset, self._found.producers = -1, ProducerStates()
        for offset in reversed(offsets):
            if at_most is None or offset <= at_most:
                producers = ProducerStates.decode(self._files.read_all(self._path(file_name(offset, SNAPSHOT_SUFFIX))))
                if producers is not None:
                    self._snapshot_offset, self._found.producers = offset, producers
                    return
            self._files.remove(self._path(file_name(offset, SNAPSHOT_SUFFIX)))

    def _was_closed(self) -> bool:
        """Whether the last segment ends, at a batch's end, exactly at the newest snapshot's offset."""
        last = self._found.segments[-1]
        if self._snapshot_offset < last.base_offset or not last.load_indexes():
            return False
        end = last.offsets().positions[-1] if last.offsets() else 0
        next_offset = last.base_offset
        for position, header in last.batches(end):
            end, next_offset = position + header.size_bytes, header.next_offset
        self._found.end_offset = next_offset
        return end == last.size and next_offset == self._snapshot_offset <= self._durable_offset

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
                verify_crc=True, may_have_gaps=self._may_have_gaps(segment), on_batch=partial(self._meet, segment)
            )
            is_whole = segment.size == size
            if not is_whole:
                self._refuse_older_format(segment)
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
        # The last one's are written when it is full or closed: to make files anew is what costs time when a thousand logs are recovered.
        found.segments[-1].keep_indexes()
        found.aborted = [transaction for transaction in found.aborted if transaction.last_offset < found.end_offset]
        ends = [*(segment.base_offset for segment in found.segments[first + 1 :]), found.end_offset]
        for segment, end_offset in zip(found.segments[first:], ends):
            self._rewrite_transactions(segment, end_offset)
        if self._snapshot_offset > found.end_offset:
            self._replay_producers()

    def _note_damage(self, segment: Segment, size: int, rest: list[Segment]) -> None:
        """A segment's sound part ends before its file does: a write that a crash cut short, if nothing sound is behind it."""
        offset = self._found.end_offset
        behind = whole_batch_behind(segment.log().read, segment.size, size, offset)
        if behind is None and not rest and offset >= self._durable_offset:
            self._lost(torn_tail(segment, size, offset), is_a_write_cut_short=True)
        else:
            self._lost(damaged(segment, size, offset, behind, rest, self._durable_offset))

    def _read_durable(self, segment: Segment) -> None:
        """Producers and epochs of a segment that no crash can have harmed: nothing in it is cut, and what follows it stays."""
        for position, header in segment.batches():
            self._meet(segment, position, header)

    def _refuse_older_format(self, segment: Segment) -> None:
        """Messages of formats 0 and 1 (before Kafka 0.11) are no damage: they are left alone, and the log is not opened."""
        head = segment.log().read(segment.size, _OLDER_MESSAGE.size)
        if len(head) < _OLDER_MESSAGE.size:
            return
        length, crc, magic = _OLDER_MESSAGE.unpack(head)
        if magic not in (0, 1) or length < _OLDER_LENGTH_MIN:
            return
        if crc32(segment.log().read(segment.size + _OLDER_CRC_FROM, length - _CRC_BYTES)) == crc:
            raise StorageError(
                f"{self._directory} holds messages of format {magic}, from before Kafka 0.11, which are not read here;"
                " copy the topic with a Kafka version that rewrites them"
            )

    def _may_have_gaps(self, segment: Segment) -> bool:
        """What is missing below a durable offset was cleaned or deleted; above it, it was lost."""
        return self._settings.is_compacted or segment.base_offset <= self._durable_offset

    def _follows(self, segment: Segment) -> bool:
        """A segment begins where the one before ended, or behind a gap that compaction left."""
        gap = segment.base_offset - self._found.end_offset
        return gap == 0 or (gap > 0 and self._may_have_gaps(segment))

    def _meet(self, segment: Segment, position: int, header: BatchHeader) -> None:
        epochs = self._found.epochs
        if not epochs or header.leader_epoch > epochs[-1].epoch:
            epochs.append(EpochStart(header.leader_epoch, header.base_offset))
        if header.producer_id >= 0 and header.base_offset >= self._snapshot_offset:
            self._note(segment, position, header)

    def _note(self, segment: Segment, position: int, header: BatchHeader) -> None:
        marker = read_end_marker(segment.read_batch(position, header)) if header.is_control else None
        if marker is None:
            self._found.producers.note(header)
            return
        aborted = self._found.producers.end_transaction(header, marker)
        known = self._found.aborted
        if aborted is not None and not (known and known[-1].last_offset >= aborted.last_offset):
            known.append(aborted)

    def _rewrite_transactions(self, segment: Segment, end_offset: int) -> None:
        """Hold a scanned segment's index to what its markers say."""
        path = segment.file(TRANSACTION_INDEX_SUFFIX)
        aborted = [transaction for transaction in self._found.aborted if segment.base_offset <= transaction.last_offset < end_offset]
        exists = self._files.exists(path)
        if aborted:
            self._files.replace(path, encode_transactions(aborted), sync=segment.base_offset < self._durable_offset)
        elif exists:
            self._files.remove(path)

    def _drop_from(self, number: int) -> None:
        """Remove the segments from `number` on, durably: they must not come back after the next crash."""
        dropped = self._found.segments[number:]
        del self._found.segments[number:]
        for segment in dropped:
            self._found.bytes_cut += segment.size
            segment.remove()
        if dropped:
            self._files.sync_directory(self._directory)

    def _replay_producers(self) -> None:
        """The log turned out shorter than the newest snapshot: go back to an older one and read on from there."""
        found = self._found
        self._load_snapshot(_offsets(self._files.list(self._directory), SNAPSHOT_SUFFIX), at_most=found.end_offset)
        for segment in found.segments:
            for position, header in segment.batches():
                if header.producer_id >= 0 and header.base_offset >= self._snapshot_offset:
                    self._note(segment, position, header)

    def _remove_stray_snapshots(self) -> None:
        """Of the snapshots, those at a segment's base and the newest are of use."""
        useful = {segment.base_offset for segment in self._found.segments} | {self._snapshot_offset}
        for offset in _offsets(self._files.list(self._directory), SNAPSHOT_SUFFIX):
            if offset not in useful:
                self._files.remove(self._path(file_name(offset, SNAPSHOT_SUFFIX)))


def _offsets(names: list[str], suffix: str) -> list[int]:
    """The offsets in the names of Kafka's form with this suffix, rising."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == _NAME_DIGITS and stem.isascii() and stem.isdigit())
