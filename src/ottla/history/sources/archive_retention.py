"""Removes what is old from an archive of `ottla watch`, in whole files, and keeps what later files need to be understood.

Of the files that are removed from a partition of the offsets topic, the last record of each key stays, as compaction would leave it: who
was a member when the kept history begins, and what was committed. Of looks at the admin API the last state of each group stays. It takes
the place of one of the files, at once, and then the others are removed; after a kill in between, the next run removes them. Offsets that
were committed in transactions do not stay: their markers may be in later files.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.groups.log.records import keep_records
from ottla.history.sources.admin import DEAD, GROUP, LOOK, OFFSETS, TOPICS
from ottla.history.sources.archive import (
    LINES_SUFFIX,
    SEGMENT_BYTES_MAX,
    SNAPSHOTS_FOLDER,
    ArchiveWriter,
    FolderProblems,
    LineProblems,
    find_partitions,
    lines_of,
    read_segment,
)
from ottla.history.times import parse_duration_ms
from ottla.log.checkpoints import LOG_SUFFIX, file_name, offsets_of
from ottla.log.dump.batches import Window
from ottla.log.segment import walk_batches
from ottla.log.segment_facts import Readable
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, decode_batch

FILES_PER_RETENTION: Final = 4
"""A file holds at most this part of the time that is kept."""
FILES_PER_SIZE: Final = 100
"""And this part of the size: there are as many files that are written to as the offsets topic has partitions."""
SEGMENT_BYTES_MIN: Final = 64 * 1024
_UNITS: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class Retention(NamedTuple):
    """For how long, and up to which size of the whole archive, files are kept; None: without a bound."""

    age_ms: int | None = None
    size_bytes: int | None = None

    @property
    def segment_ms(self) -> int | None:
        """When a file is followed by another one."""
        return None if self.age_ms is None else max(1, self.age_ms // FILES_PER_RETENTION)

    @property
    def segment_bytes(self) -> int:
        """The same by its size."""
        bound = SEGMENT_BYTES_MAX if self.size_bytes is None else self.size_bytes // FILES_PER_SIZE
        return max(SEGMENT_BYTES_MIN, min(SEGMENT_BYTES_MAX, bound))


FOR_EVER: Final = Retention()


def parse_retention(texts: Iterable[str]) -> Retention:
    """The bounds of texts such as `7d` and `10GB`, at most one of each. Raises ValueError with what to write instead."""
    age_ms: int | None = None
    size_bytes: int | None = None
    for text in texts:
        number, unit = text.strip()[: -len(_unit(text)) or None].strip(), _unit(text)
        if unit and number.isdecimal() and size_bytes is None:
            size_bytes = int(number) * _UNITS[unit]
        elif not unit and age_ms is None:
            age_ms = parse_duration_ms(text)
        else:
            raise ValueError(f"{text!r}: write one time, such as 7d, and one size, such as 10GB, or one of them")
    if 0 in (age_ms, size_bytes):
        raise ValueError("a retention is more than 0")
    return Retention(age_ms, size_bytes)


def _unit(text: str) -> str:
    upper = text.strip().upper()
    return max((unit for unit in _UNITS if upper.endswith(unit)), key=len, default="")


class _StoredFile(NamedTuple):
    """One file. last_ms: of its last batch or look. is_active: it is written to."""

    folder: str
    path: str
    size: int
    last_ms: int
    is_active: bool


class ArchiveRetention:
    """Call `apply` from time to time, by the one who writes the archive."""

    def __init__(self, archive: ArchiveWriter, retention: Retention) -> None:
        self.size_bytes = 0
        """Of the whole archive, when `apply` was last called."""
        self._archive = archive
        self._files = archive.files
        self._retention = retention
        self._reduced: dict[str, int] = {}
        """Files that hold only what has to stay, with their sizes."""
        self._last_ms: dict[str, tuple[int, int]] = {}

    def apply(self, now_ms: int) -> int:
        """Remove what is over the bounds; the number of files removed. Raises StorageError."""
        self._archive.roll_lines(now_ms)
        folders = {folder: self._stored(folder) for folder in self._folders()}
        self.size_bytes = sum(file.size for files in folders.values() for file in files)
        over = self._over_size([file for files in folders.values() for file in files]) | self._too_old(folders.values(), now_ms)
        removed = 0
        for folder, files in folders.items():
            count = max((at for at, file in enumerate(files, 1) if file.path in over), default=0)
            if count > 1 or (count == 1 and self._reduced.get(files[0].path) != files[0].size):
                removed += self._reduce(folder, files[:count])
        return removed

    def _folders(self) -> list[str]:
        logs = [folder for topic in (CONSUMER_OFFSETS, GROUP_EVENTS) for folder in find_partitions(self._files, topic).values()]
        return [*logs, SNAPSHOTS_FOLDER]

    def _stored(self, folder: str) -> list[_StoredFile]:
        suffix = LINES_SUFFIX if folder == SNAPSHOTS_FOLDER else LOG_SUFFIX
        paths = [f"{folder}/{file_name(offset, suffix)}" for offset in offsets_of(self._files.list(folder), suffix)]
        sizes = [self._files.size(path) for path in paths]
        return [
            _StoredFile(folder, path, size, self._last_time(path, size), is_active=path == paths[-1])
            for path, size in zip(paths, sizes, strict=True)
        ]

    def _last_time(self, path: str, size: int) -> int:
        """The time of the last batch or look in a file, which is looked up again when its size has changed."""
        known = self._last_ms.get(path)
        if known is None or known[0] != size:
            last_ms = _last_look_ms(Window(self._files, path)) if path.endswith(LINES_SUFFIX) else self._last_batch_ms(path)
            known = self._last_ms[path] = size, last_ms
        return known[1]

    def _last_batch_ms(self, path: str) -> int:
        file = self._files.open(path)
        last_ms = max((header.max_timestamp_ms for _, header in walk_batches(file, 0, file.size)), default=0)
        file.close()
        return last_ms

    def _too_old(self, folders: Iterable[Sequence[_StoredFile]], now_ms: int) -> set[str]:
        """Of a partition that gets no more records the file that is written to, too; the looks go on."""
        age_ms = self._retention.age_ms
        if age_ms is None:
            return set()
        kept = (SNAPSHOTS_FOLDER, GROUP_EVENTS)
        return {
            file.path
            for files in folders
            for file in files
            if file.last_ms < now_ms - age_ms and file.size and not (file.is_active and file.folder.startswith(kept))
        }

    def _over_size(self, files: Sequence[_StoredFile]) -> set[str]:
        """The oldest files without which the rest is within the bound; none that is written to."""
        if self._retention.size_bytes is None:
            return set()
        left, over = sum(file.size for file in files), set()
        for file in sorted(files, key=lambda file: file.last_ms):
            if left <= self._retention.size_bytes:
                break
            if not file.is_active and self._reduced.get(file.path) != file.size:
                over.add(file.path)
                left -= file.size
        return over

    def _reduce(self, folder: str, files: Sequence[_StoredFile]) -> int:
        """Replace files by what has to stay of them; the number of files that are gone."""
        paths = [file.path for file in files]
        if folder.startswith(GROUP_EVENTS):
            kept, data = None, b""
        elif folder == SNAPSHOTS_FOLDER:
            # Of the last file's number: what is before it says nothing else until it is read.
            kept, data = paths[-1], _last_states(self._files, paths)
        else:
            self._archive.release(folder)
            kept, data = paths[0], _last_records(self._files, paths)
        if kept is not None:
            self._files.replace(kept, data)
            self._reduced[kept] = len(data)
        for path in paths:
            if path != kept:
                self._files.remove(path)
        return len(paths) - (kept is not None)


def _last_look_ms(window: Window) -> int:
    last_ms = 0
    for line in lines_of(window, LineProblems()):
        if line.startswith(b'{"kind":"look"'):
            last_ms = int(json.loads(line)["at_ms"])
    return last_ms


def _last_records(files: Readable, paths: Sequence[str]) -> bytes:
    """Batches with the last record of each key that was not deleted; the last batch always, for its position."""
    last: dict[bytes | None, int] = {}
    newest_offset = -1
    for batch in _batches(files, paths):
        newest_offset = batch.header.base_offset
        for record in _plain_records(batch):
            if record.value is None:
                last.pop(record.key, None)
            else:
                last[record.key] = record.offset

    def is_kept(record: Record) -> bool:
        return last.get(record.key) == record.offset

    data = bytearray()
    for batch in _batches(files, paths):
        is_newest = batch.header.base_offset == newest_offset
        if _is_plain(batch):
            reduced = keep_records(batch, is_kept)
            data += reduced.data if reduced.header.record_count or is_newest else b""
        elif is_newest:
            data += batch.data
    return bytes(data)


def _is_plain(batch: Batch) -> bool:
    return not (batch.header.is_control or batch.header.is_transactional)


def _batches(files: Readable, paths: Sequence[str]) -> Iterable[Batch]:
    """The batches of files in order; those that an earlier file has already, which a kill can leave, once."""
    next_offset = -1
    for path in paths:
        for batch in read_segment(Window(files, path), FolderProblems()):
            if batch.header.base_offset >= next_offset:
                yield batch
                next_offset = batch.header.next_offset


def _plain_records(batch: Batch) -> Sequence[Record]:
    try:
        return decode_batch(batch.data) if _is_plain(batch) else ()
    except PeerError:
        return ()


def _last_states(files: Readable, paths: Sequence[str]) -> bytes:
    """Lines with the names of topics, the last state of each group that is there, its last offsets, and the last look."""
    names: dict[str, str] = {}
    groups: dict[str, Any] = {}
    offsets: dict[str, dict[tuple[str, int], list[Any]]] = {}
    times: dict[str, int] = {}
    look: Any = None
    for path in paths:
        for line in lines_of(Window(files, path), LineProblems()):
            try:
                fields = json.loads(line)
                kind = fields["kind"]
                if kind == TOPICS:
                    names.update(fields["names"])
                elif kind == GROUP:
                    groups[fields["group"]] = fields
                elif kind == OFFSETS:
                    offsets.setdefault(fields["group"], {}).update({(each[0], each[1]): each for each in fields["offsets"]})
                    times[fields["group"]] = fields["at_ms"]
                elif kind == LOOK:
                    look = fields
                    for group in [name for name, each in groups.items() if each["state"] == DEAD]:
                        del groups[group]
                        offsets.pop(group, None)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                continue  # readers count it
    if look is None:
        return b""
    kept: list[Any] = [{"kind": TOPICS, "at_ms": look["at_ms"], "names": names}] if names else []
    for group, fields in groups.items():
        kept.append(fields)
        if group in offsets:
            at_ms = max(times[group], fields["at_ms"])
            kept.append({"kind": OFFSETS, "at_ms": at_ms, "group": group, "offsets": list(offsets[group].values())})
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in [*kept, look])
