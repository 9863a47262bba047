"""The offsets topic as a source of evidence: of a cluster, of copied directories, and of the archives of `ottla watch`, all as one log.

Add sources, then read `evidence()` once; `counts` and `problems` say afterwards what could not be read. Group events of Ottla's brokers
and looks at the admin API are read from where they are found. No source is needed; one that cannot be used at all raises SourceError.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.log.records import EvidenceDecoder
from ottla.history.sources.admin import SnapshotReader, read_topic_names
from ottla.history.sources.archive import (
    SNAPSHOTS_FOLDER,
    FolderProblems,
    LineProblems,
    find_partitions,
    partition_of,
    read_batches,
    read_lines,
    read_manifest,
    topic_names,
)
from ottla.history.sources.evidence import Evidence, Kind, SourceError
from ottla.history.sources.group_events import read_group_events
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.records.batch import Batch, merge_batches, split_batches
from ottla.protocol.records.control import CommittedRecords

REFUSED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
Copy = Callable[[], Iterable[Batch]]


class OffsetsTopic:
    """`groups`: only these, None for all. Close it, or use it in a `with`, when a cluster is among the sources."""

    def __init__(self, groups: Collection[str] | None = None) -> None:
        self.counts = ReadCounts()
        self.problems: list[str] = []
        self._groups = None if groups is None else frozenset(groups)
        self._topic_names: dict[str, str] = {}
        self._copies: dict[str, dict[int, list[Copy]]] = {CONSUMER_OFFSETS: {}, GROUP_EVENTS: {}}
        self._snapshots: list[OsFiles] = []
        self._folder_problems = FolderProblems()
        self._fetchers: list[Fetcher] = []

    def __enter__(self) -> "OffsetsTopic":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to clusters."""
        while self._fetchers:
            self._fetchers.pop().close()

    def add_directory(self, path: Path) -> None:
        """Add a Kafka data directory, a directory of `__consumer_offsets-N` folders, or one such folder. Raises SourceError."""
        if not path.is_dir():
            raise SourceError(f"{path} is {'no directory' if path.exists() else 'not there'}")
        single = partition_of(path.resolve().name, CONSUMER_OFFSETS)
        try:
            if single is not None:
                self._add_folder(OsFiles(path.resolve().parent), CONSUMER_OFFSETS, single, path.resolve().name)
                return
            files = OsFiles(path)
            found = self._add_folders(files)
            self._topic_names.update(topic_names(files))
        except StorageError as error:
            raise SourceError(f"{path}: {error}") from error
        if not found:
            raise SourceError(f"{path} holds no {CONSUMER_OFFSETS}-N folder: name a data directory of a broker, or a copy of such folders")

    def add_archive(self, path: Path) -> None:
        """Add what `ottla watch` stored. Raises SourceError."""
        if not path.is_dir():
            raise SourceError(f"{path} is {'no directory' if path.exists() else 'not there'}")
        files = OsFiles(path)
        try:
            if read_manifest(files) is None:
                raise SourceError(f"{path} is no archive of ottla watch (it has no archive.json)")
            self._add_folders(files)
            self._topic_names.update(read_topic_names(read_lines(files, SNAPSHOTS_FOLDER, LineProblems())))
        except StorageError as error:
            raise SourceError(f"{path}: {error}") from error
        self._snapshots.append(files)

    def add_cluster(self, settings: ClientSettings) -> None:
        """Add what the topic holds now. Raises ClientError when the cluster does not answer; a refusal is a problem, not an error."""
        fetcher = Fetcher(settings)
        self._fetchers.append(fetcher)
        with AdminClient(settings) as admin:
            self._topic_names.update({topic.topic_id: name for name, topic in admin.list_topics().items() if topic.topic_id})
            for topic in (CONSUMER_OFFSETS, GROUP_EVENTS):
                try:
                    for each in self._chosen(topic_ranges(admin, topic)):
                        copies = self._copies[topic].setdefault(each.partition.partition, [])
                        copies.append(partial(fetched_batches, fetcher, each))
                except UnknownTopicError:
                    continue
                except RequestFailedError as error:
                    if error.code not in REFUSED:
                        raise
                    self.problems.append(f"{topic} may not be read: {error.code.name}; ottla watch can poll groups instead")

    def _chosen(self, ranges: list[FetchRange]) -> list[FetchRange]:
        """Of the offsets topic only partitions that the chosen groups are in."""
        if self._groups is None or not ranges or ranges[0].partition.topic != CONSUMER_OFFSETS:
            return ranges
        count = 1 + max(each.partition.partition for each in ranges)
        chosen = {coordinator_partition(group, count) for group in self._groups}
        return [each for each in ranges if each.partition.partition in chosen]

    def _add_folders(self, files: OsFiles) -> int:
        found = [(topic, *each) for topic in self._copies for each in find_partitions(files, topic).items()]
        for topic, partition, folder in found:
            self._add_folder(files, topic, partition, folder)
        return len(found)

    def _add_folder(self, files: OsFiles, topic: str, partition: int, folder: str) -> None:
        copies = self._copies[topic].setdefault(partition, [])
        copies.append(partial(read_batches, files, folder, self._folder_problems))

    def evidence(self) -> Iterator[Evidence]:
        """All evidence: partition by partition in the order of the log, then group events, then looks at the admin API.

        The looks only count for groups of which there are no records: they say less about the same, without generations.
        """
        recorded: set[str | None] = set()
        for found in self._read_topics():
            if found.kind is not Kind.COMMITS:
                recorded.add(found.group)
            yield found
        for files in self._snapshots:
            yield from (found for found in self._read_snapshots(files) if found.group not in recorded)
        self.counts.torn_bytes += self._folder_problems.torn_bytes
        self.counts.damaged_batches += self._folder_problems.damaged_batches
        self.problems += self._folder_problems.unreadable_files

    def _read_topics(self) -> Iterator[Evidence]:
        for partition, copies in sorted(self._copies[CONSUMER_OFFSETS].items()):
            yield from self._read_partition(partition, copies)
        for partition, copies in sorted(self._copies[GROUP_EVENTS].items()):
            yield from self._read_events(partition, copies)

    def _batches(self, name: str, copies: Iterable[Copy]) -> Iterator[Batch]:
        try:
            yield from merge_batches([copy() for copy in copies])
        except (ClientError, PeerError) as error:
            self.problems.append(f"{name} was read only in part: {error}")

    def _read_partition(self, partition: int, copies: Iterable[Copy]) -> Iterator[Evidence]:
        committed = CommittedRecords()
        reader = GroupRecords(
            partition, decode=EvidenceDecoder().decode, counts=self.counts, groups=self._groups, topic_names=self._topic_names
        )
        for batch in self._batches(f"{CONSUMER_OFFSETS}-{partition}", copies):
            reader.start_epoch(batch.header.leader_epoch, batch.header.max_timestamp_ms)
            yield from reader.read(committed.read(batch.data, batch.header))
        yield from reader.finish()
        self.counts.damaged_batches += committed.damaged_batches
        self.counts.aborted_records += committed.aborted_records + committed.dropped_records
        self.counts.pending_records += committed.pending_records

    def _read_events(self, partition: int, copies: Iterable[Copy]) -> Iterator[Evidence]:
        committed = CommittedRecords()
        for batch in self._batches(f"{GROUP_EVENTS}-{partition}", copies):
            for found in read_group_events(committed.read(batch.data, batch.header), clock=f"{GROUP_EVENTS}-{partition}"):
                if found is None:
                    self.counts.unreadable_records += 1
                elif self._groups is None or found.group in self._groups:
                    yield found
        self.counts.damaged_batches += committed.damaged_batches

    def _read_snapshots(self, files: OsFiles) -> Iterator[Evidence]:
        problems, reader = LineProblems(), SnapshotReader()
        for found in reader.read(read_lines(files, SNAPSHOTS_FOLDER, problems)):
            if self._groups is None or found.group in self._groups:
                yield found
        self.counts.torn_bytes += problems.torn_bytes
        self.counts.unreadable_records += reader.bad_lines + problems.long_lines
        self.problems += [*problems.unreadable_files, *reader.notes]


def fetched_batches(fetcher: Fetcher, wanted: FetchRange) -> Iterator[Batch]:
    """The batches of a range of offsets, as the broker sent them; none where it is empty."""
    if wanted.start >= wanted.end:
        return
    for fetched in fetcher.read([wanted]):
        for at, header in split_batches(fetched.records):
            if header.last_offset >= wanted.start:
                yield Batch(header, fetched.records[at : at + header.size_bytes])
