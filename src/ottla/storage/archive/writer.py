"""An archive that is written to: logs of partitions, snapshots, and the manifest, in one directory that one program uses at a time.

It goes on where the files end. What was fetched is only ever appended.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.core.errors import StorageError
from ottla.core.records.merged_batches import Batch
from ottla.storage.archive.batch_files import SEGMENT_BYTES_MAX, PartitionFiles
from ottla.storage.archive.layout import MANIFEST_FILE, SNAPSHOTS_FOLDER, Manifest, read_manifest, write_manifest
from ottla.storage.archive.line_files import LineFiles
from ottla.storage.archive.partition_folders import find_partitions
from ottla.storage.files import OsFiles

USER = "ottla watch"


class ArchiveWriter:
    """Opens the archive in a directory, or begins one where the directory is empty.

    Raises StorageError when the directory holds other things, is in use, or is an archive of other groups.
    """

    def __init__(self, files: OsFiles, *, now_ms: int, groups: Sequence[str] | None = None, segment_bytes: int = SEGMENT_BYTES_MAX) -> None:
        self._files = files
        self._segment_bytes = segment_bytes
        self._logs: dict[tuple[str, int], PartitionFiles] = {}
        files.lock(USER)
        try:
            self.manifest = self._manifest(now_ms, None if groups is None else tuple(sorted(groups)))
            self._snapshots = LineFiles(files, SNAPSHOTS_FOLDER)
        except BaseException:
            files.unlock()
            raise

    def _manifest(self, now_ms: int, groups: tuple[str, ...] | None) -> Manifest:
        found = read_manifest(self._files)
        if found is None:
            others = [name for name in self._files.list("") if not name.startswith((".", MANIFEST_FILE))]
            if others:
                raise StorageError(f"the directory holds other things ({others[0]}); choose an empty one")
            found = Manifest(created_ms=now_ms, groups=groups)
            write_manifest(self._files, found)
        elif found.groups != groups:
            text = "all groups" if found.groups is None else ", ".join(found.groups)
            raise StorageError(f"the archive is of {text}; give the same --group again, or choose another directory")
        return found

    def check_topic(self, topic: str, topic_id: str) -> None:
        """StorageError if the archive has another topic of this name: of another cluster, or one that was deleted since."""
        known = dict(self.manifest.topic_ids)
        if topic_id and topic not in known:
            self.manifest = replace(self.manifest, topic_ids=(*self.manifest.topic_ids, (topic, topic_id)))
            write_manifest(self._files, self.manifest)
        elif topic_id and known[topic] != topic_id:
            raise StorageError(f"the archive is of another cluster, or {topic} was created again since; choose another directory")

    def positions(self, topic: str) -> dict[int, int]:
        """The offsets behind the last batches, of the partitions that have any."""
        for partition in find_partitions(self._files, topic):
            self._log(topic, partition)
        return {number: log.next_offset for (name, number), log in self._logs.items() if name == topic and log.next_offset is not None}

    def append(self, topic: str, partition: int, batches: Sequence[Batch]) -> int:
        """Write batches that follow the position; the number of bytes."""
        return self._log(topic, partition).append(batches)

    def append_lines(self, lines: Sequence[bytes]) -> int:
        """Write lines to the snapshots; the number of bytes."""
        return self._snapshots.append(lines)

    def close(self) -> None:
        """Close the files, and let another program use the directory."""
        for log in self._logs.values():
            log.close()
        self._snapshots.close()
        self._files.unlock()

    def _log(self, topic: str, partition: int) -> PartitionFiles:
        log = self._logs.get((topic, partition))
        if log is None:
            log = PartitionFiles(self._files, f"{topic}-{partition}", segment_bytes=self._segment_bytes)
            self._logs[topic, partition] = log
        return log
