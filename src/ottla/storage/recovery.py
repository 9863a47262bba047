"""Opening a partition's directory: which bytes of it are the log.

After a clean close it looks at one segment's tail; otherwise it reads, batch by batch with their checksums, all that is not known to be
durable, cuts the log at the first batch that is not whole and sound, drops what lies behind, and rebuilds indexes, epochs and producers.

The evidence is Kafka's own producer snapshot: `<offset>.snapshot` is written only after every byte below that offset has been synced. It
never removes anything below such an offset, and it never moves a byte: what it keeps is as it was written.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from zlib import crc32

from ottla.core.errors import StorageError
from ottla.core.records.batch import BatchHeader
from ottla.storage.checkpoints import LEADER_EPOCHS_FILE, EpochStart, decode_leader_epochs, encode_leader_epochs
from ottla.storage.files import Files
from ottla.storage.producer_state import SNAPSHOT_SUFFIX, ProducerStates
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name
from ottla.storage.settings import LogSettings

_NAME_DIGITS: Final = 20
# Offset (skipped), size, checksum, format; the checksum covers all from the format on.
_OLDER_MESSAGE: Final = Struct(">8xiIb")
_OLDER_LENGTH_MIN: Final = 14
_OLDER_CRC_FROM: Final = 16
_CRC_BYTES: Final = 4
_UNFINISHED_SUFFIXES: Final = (".tmp", ".cleaned", ".deleted")


@dataclass(slots=True)
class Recovered:
    """A partition's log as found. `clean`: it was closed in order. `bytes_cut`: what was removed, torn or behind something torn.

    `undurable`: segments before the last that no snapshot vouches for; they must be synced before the next one is written.
    """

    segments: list[Segment] = field(default_factory=list)
    end_offset: int = 0
    producers: ProducerStates = field(default_factory=ProducerStates)
    epochs: list[EpochStart] = field(default_factory=list)
    clean: bool = True
    bytes_cut: int = 0
    undurable: list[Segment] = field(default_factory=list)


def recover(files: Files, directory: str, settings: LogSettings, *, now_ms: int) -> Recovered:
    """Open what lies in `directory` (which may not exist); StorageError when the disk fails."""
    return _Recovery(files, directory, settings, now_ms).run()


class _Recovery:
    def __init__(self, files: Files, directory: str, settings: LogSettings, now_ms: int) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._now_ms = now_ms
        self._found = Recovered()
        self._snapshot_offset = -1

    def run(self) -> Recovered:
        found = self._found
        names = self._remove_leftovers(self._files.list(self._directory))
        bases = _offsets(names, LOG_SUFFIX)
        if not bases:
            return found
        found.segments = [self._segment(base) for base in bases]
        self._load_snapshot(_offsets(names, SNAPSHOT_SUFFIX))
        epochs = self._load_epochs() if LEADER_EPOCHS_FILE in names else None
        found.epochs = epochs or []
        found.clean = epochs is not None and self._was_closed()
        if not found.clean:
            self._recover(from_offset=self._snapshot_offset if epochs is not None else -1)
            if found.epochs != epochs:
                self._files.replace(self._path(LEADER_EPOCHS_FILE), encode_leader_epochs(found.epochs), sync=False)
        found.producers.expire(now_ms=self._now_ms, after_ms=self._settings.producer_id_expiration_ms)
        self._remove_stray_snapshots()
        return found

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _segment(self, base: int) -> Segment:
        interval = self._settings.index_interval_bytes
        return Segment(self._files, self._directory, base, index_interval_bytes=interval, made_ms=self._now_ms)

    def _remove_leftovers(self, names: list[str]) -> list[str]:
        """Files that a crash left half made, and indexes whose log is gone."""
        logs = set(_offsets(names, LOG_SUFFIX))
        orphans = {
            file_name(base, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) for base in _offsets(names, suffix) if base not in logs
        }
        gone = {name for name in names if name in orphans or name.endswith(_UNFINISHED_SUFFIXES)}
        for name in gone:
            self._files.remove(self._path(name))
        return [name for name in names if name not in gone]

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
        return end == last.size and next_offset == self._snapshot_offset

    def _recover(self, *, from_offset: int) -> None:
        """Read everything from the segment that holds `from_offset` on, and cut at the first damage."""
        found = self._found
        first = max(0, bisect_right([segment.base_offset for segment in found.segments], from_offset) - 1)
        found.epochs = [epoch for epoch in found.epochs if epoch.start_offset < found.segments[first].base_offset]
        found.end_offset = found.segments[first].base_offset
        for number in range(first, len(found.segments)):
            segment = found.segments[number]
            if not self._follows(segment):
                self._drop_from(number)
                break
            size = segment.size
            found.end_offset = segment.recount(verify_crc=True, may_have_gaps=self._settings.is_compacted, on_batch=self._meet)
            is_whole = segment.size == size
            if not is_whole:
                self._refuse_older_format(segment)
                found.bytes_cut += size - segment.size
                segment.truncate(segment.size)
                segment.sync()
            is_vouched_for = found.end_offset <= self._snapshot_offset
            segment.rewrite_indexes(sync=is_vouched_for)
            found.undurable.append(segment)
            if not is_whole:
                self._drop_from(number + 1)
                break
        found.undurable = [segment for segment in found.undurable if segment is not found.segments[-1]]
        if self._snapshot_offset > found.end_offset:
            self._replay_producers()

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

    def _follows(self, segment: Segment) -> bool:
        """A segment begins where the one before ended; only compaction leaves a gap."""
        gap = segment.base_offset - self._found.end_offset
        return gap == 0 or (gap > 0 and self._settings.is_compacted)

    def _meet(self, header: BatchHeader) -> None:
        epochs = self._found.epochs
        if not epochs or header.leader_epoch > epochs[-1].epoch:
            epochs.append(EpochStart(header.leader_epoch, header.base_offset))
        if header.producer_id >= 0 and header.base_offset >= self._snapshot_offset:
            self._found.producers.note(header)

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
            for _, header in segment.batches():
                if header.producer_id >= 0 and header.base_offset >= self._snapshot_offset:
                    found.producers.note(header)

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
