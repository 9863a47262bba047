"""An archive of `ottla watch` (docs/watch.md): logs of partitions, looks at groups as lines of JSON, and `archive.json`, in one directory.

What was fetched is only ever appended. The files hold their own position: what a kill left behind the last whole batch or line is cut off
when they are opened for writing, and fetched again. No file is synced: after a loss of power the end is missing, and is fetched again too.

The folders of partitions (`TOPIC-N`) may also be copies of a broker's, made while it wrote to them: what is damaged is counted and
skipped, and a file ends where no whole batch begins.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.log.checkpoints import LOG_SUFFIX, METADATA_FILE, decode_partition_metadata, file_name, offsets_of
from ottla.log.dump.batches import Window, read_start
from ottla.log.file_system import File, Files
from ottla.log.files import OsFiles
from ottla.log.segment import walk_batches
from ottla.log.segment_facts import Readable
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, MAGIC, Batch, crc_is_valid, read_header

MANIFEST_FILE: Final = "archive.json"
SNAPSHOTS_FOLDER: Final = "snapshots"
FORMAT: Final = 1
_MANIFEST_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`topic_ids`: of the topics in the archive, by name; no two clusters have the same. `groups`: None for all."""

    created_ms: int
    groups: tuple[str, ...] | None = None
    topic_ids: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> bytes:
        """The file's contents."""
        fields = {
            "format": FORMAT,
            "created_ms": self.created_ms,
            "groups": None if self.groups is None else list(self.groups),
            "topic_ids": dict(self.topic_ids),
        }
        return json.dumps(fields, indent=2).encode() + b"\n"


def read_manifest(files: Readable) -> Manifest | None:
    """The manifest of an archive; None where there is no archive. Raises StorageError for one that cannot be read."""
    if not files.exists(MANIFEST_FILE):
        return None
    try:
        fields: Any = json.loads(files.read_range(MANIFEST_FILE, 0, _MANIFEST_BYTES_MAX))
        if fields["format"] != FORMAT:
            raise StorageError(f"{MANIFEST_FILE} is of format {fields['format']}, which a later version of Ottla wrote")
        return Manifest(
            created_ms=int(fields["created_ms"]),
            groups=None if fields["groups"] is None else tuple(map(str, fields["groups"])),
            topic_ids=tuple((str(name), str(topic_id)) for name, topic_id in dict(fields["topic_ids"]).items()),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(f"{MANIFEST_FILE} is damaged: this is no archive of ottla watch") from error


def write_manifest(files: Files, manifest: Manifest) -> None:
    """Replace the manifest, at once or not at all."""
    files.replace(MANIFEST_FILE, manifest.to_json())


SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A file that is larger is followed by another one."""


class PartitionFiles:
    """Appends to the folder of one partition, which is made if it does not exist. StorageError where the system refuses.

    A file is followed by another one at `segment_bytes`, and when its first batch is `segment_ms` older than the next one.
    `next_offset`: the offset behind the last batch, None before there is one.
    """

    def __init__(self, files: Files, folder: str, *, segment_bytes: int = SEGMENT_BYTES_MAX, segment_ms: int | None = None) -> None:
        self._files = files
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._file: File | None = None
        self._first_ms = 0
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
            if end == 0:
                self._first_ms = header.max_timestamp_ms
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
        first_ms = batches[0].header.max_timestamp_ms
        is_old = self._segment_ms is not None and first_ms - self._first_ms >= self._segment_ms
        if self._file is None or self._file.size >= self._segment_bytes or is_old:
            self.close()
            self._first_ms = first_ms
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


_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
_METADATA_BYTES_MAX: Final = 4096


@dataclass(slots=True)
class FolderProblems:
    """`damaged_batches`: of a wrong checksum, an old format, or too large. `torn_bytes`: behind the last whole batch of a file.

    `unreadable_files`: those that the system refuses, and why.
    """

    damaged_batches: int = 0
    torn_bytes: int = 0
    unreadable_files: tuple[str, ...] = ()


def partition_of(name: str, topic: str) -> int | None:
    """The partition whose folder has this name; None for a folder of another topic, or one that a broker is deleting."""
    matched = _FOLDER.fullmatch(name)
    return int(matched[2]) if matched is not None and matched[1] == topic else None


def find_partitions(files: Readable, topic: str) -> dict[int, str]:
    """The folders of a topic's partitions, by their numbers. Raises StorageError."""
    found = {partition_of(name, topic): name for name in files.list("")}
    return {partition: name for partition, name in sorted(found.items(), key=lambda item: item[1]) if partition is not None}


def topic_names(files: Readable) -> dict[str, str]:
    """The topics of a data directory: ids, as 22 letters of base64, to names. Raises StorageError."""
    names: dict[str, str] = {}
    named: set[str] = set()
    for folder in files.list(""):
        matched, path = _FOLDER.fullmatch(folder), f"{folder}/{METADATA_FILE}"
        if matched is None or matched[1] in named or not files.exists(path):
            continue
        topic_id = decode_partition_metadata(files.read_range(path, 0, _METADATA_BYTES_MAX))
        if topic_id is not None:
            names[urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")] = matched[1]
            named.add(matched[1])
    return names


def read_batches(files: Readable, folder: str, problems: FolderProblems) -> Iterator[Batch]:
    """Every sound batch in a folder's segments, in the order of their offsets."""
    for base_offset in offsets_of(files.list(folder), LOG_SUFFIX):
        path = f"{folder}/{file_name(base_offset, LOG_SUFFIX)}"
        try:
            yield from read_segment(Window(files, path), problems)
        except StorageError as error:
            problems.unreadable_files += (str(error),)


def read_segment(window: Window, problems: FolderProblems) -> Iterator[Batch]:
    """Every sound batch of one file."""
    position = 0
    while (start := read_start(window, position)) is not None:
        batch = _read_batch(window, position, start.size_bytes) if start.magic == MAGIC else None
        if batch is None:
            problems.damaged_batches += 1
        else:
            yield batch
        position += start.size_bytes
    problems.torn_bytes += window.size - position


def _read_batch(window: Window, position: int, size_bytes: int) -> Batch | None:
    if size_bytes > DECOMPRESSED_BYTES_MAX:
        return None
    data = bytes(window.read(position, size_bytes))
    try:
        header = read_header(data)
    except PeerError:
        return None
    return Batch(header, data) if crc_is_valid(data, 0, size_bytes) else None


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
        """Of the file that is written to."""
        self._file = self._open()
        _cut_torn_line(self._file)

    def _open(self) -> File:
        return self._files.open(f"{self._folder}/{file_name(self._number, LINES_SUFFIX)}")

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines, none of which holds a newline, with one call; the number of bytes."""
        if self._file.size >= self._file_bytes:
            self.begin_file()
        data = b"".join(line + b"\n" for line in lines)
        if data:
            self._file.append(data)
        return len(data)

    def begin_file(self) -> None:
        """Write to another file from now on, if this one holds anything."""
        if self._file.size:
            self._file.close()
            self._number += 1
            self._file = self._open()

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
            yield from lines_of(Window(files, path), problems, line_bytes_max)
        except StorageError as error:
            problems.unreadable_files += (str(error),)


def lines_of(window: Window, problems: LineProblems, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[bytes]:
    """Every whole line of one file, without its newline."""
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


USER = "ottla watch"


class ArchiveWriter:
    """Opens the archive in a directory, or begins one where the directory is empty.

    Raises StorageError when the directory holds other things, is in use, or is an archive of other groups. `segment_bytes`, `segment_ms`:
    when a file is followed by another one.
    """

    def __init__(
        self,
        files: OsFiles,
        *,
        now_ms: int,
        groups: Sequence[str] | None = None,
        segment_bytes: int = SEGMENT_BYTES_MAX,
        segment_ms: int | None = None,
    ) -> None:
        self.files = files
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._lines_began_ms = now_ms
        self._logs: dict[tuple[str, int], PartitionFiles] = {}
        files.lock(USER)
        try:
            self.manifest = self._manifest(now_ms, None if groups is None else tuple(sorted(groups)))
            self._snapshots = LineFiles(files, SNAPSHOTS_FOLDER, file_bytes=min(FILE_BYTES_MAX, segment_bytes))
        except BaseException:
            files.unlock()
            raise

    def _manifest(self, now_ms: int, groups: tuple[str, ...] | None) -> Manifest:
        found = read_manifest(self.files)
        if found is None:
            others = [name for name in self.files.list("") if not name.startswith((".", MANIFEST_FILE))]
            if others:
                raise StorageError(f"the directory holds other things ({others[0]}); choose an empty one")
            found = Manifest(created_ms=now_ms, groups=groups)
            write_manifest(self.files, found)
        elif found.groups != groups:
            text = "all groups" if found.groups is None else ", ".join(found.groups)
            raise StorageError(f"the archive is of {text}; give the same --group again, or choose another directory")
        return found

    def check_topic(self, topic: str, topic_id: str) -> None:
        """StorageError if the archive has another topic of this name: of another cluster, or one that was deleted since."""
        known = dict(self.manifest.topic_ids)
        if topic_id and topic not in known:
            self.manifest = replace(self.manifest, topic_ids=(*self.manifest.topic_ids, (topic, topic_id)))
            write_manifest(self.files, self.manifest)
        elif topic_id and known[topic] != topic_id:
            raise StorageError(f"the archive is of another cluster, or {topic} was created again since; choose another directory")

    def positions(self, topic: str) -> dict[int, int]:
        """The offsets behind the last batches, of the partitions that have any."""
        for partition in find_partitions(self.files, topic):
            self._log(topic, partition)
        return {number: log.next_offset for (name, number), log in self._logs.items() if name == topic and log.next_offset is not None}

    def append(self, topic: str, partition: int, batches: Sequence[Batch]) -> int:
        """Write batches that follow the position; the number of bytes."""
        return self._log(topic, partition).append(batches)

    def append_lines(self, lines: Sequence[bytes]) -> int:
        """Write lines to the snapshots; the number of bytes."""
        return self._snapshots.append(lines)

    def roll_lines(self, now_ms: int) -> None:
        """Begin another file of snapshots where `segment_ms` says so."""
        if self._segment_ms is not None and now_ms - self._lines_began_ms >= self._segment_ms:
            self._lines_began_ms = now_ms
            self._snapshots.begin_file()

    def release(self, folder: str) -> None:
        """Close the file of a partition, so that it may be replaced; the next append opens the folder again."""
        for (topic, partition), log in list(self._logs.items()):
            if f"{topic}-{partition}" == folder:
                log.close()
                del self._logs[topic, partition]

    def close(self) -> None:
        """Close the files, and let another program use the directory."""
        for log in self._logs.values():
            log.close()
        self._snapshots.close()
        self.files.unlock()

    def _log(self, topic: str, partition: int) -> PartitionFiles:
        log = self._logs.get((topic, partition))
        if log is None:
            log = PartitionFiles(self.files, f"{topic}-{partition}", segment_bytes=self._segment_bytes, segment_ms=self._segment_ms)
            self._logs[topic, partition] = log
        return log
