"""The tail of a topic: from where the archive ends to where the topic ends now, batch by batch as the broker holds them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.client import AdminClient
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.fetch.topic_ranges import topic_ranges
from ottla.core.client.fetch_values import FetchedRecords, FetchRange
from ottla.core.groups.log.group_filter import group_of_event, group_of_record, keep_groups
from ottla.core.groups.placement import coordinator_partition
from ottla.core.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.core.records.batch import split_batches
from ottla.core.records.merged_batches import Batch
from ottla.storage.archive.writer import ArchiveWriter

_GROUP_OF: Final = {CONSUMER_OFFSETS: group_of_record, GROUP_EVENTS: group_of_event}


class Appended(NamedTuple):
    """What was added."""

    records: int
    size_bytes: int


class TopicTail:
    """One topic, OFFSETS or GROUP_EVENTS, into an archive. `note` is called with a sentence about records that are missing."""

    def __init__(
        self,
        topic: str,
        *,
        admin: AdminClient,
        fetcher: Fetcher,
        archive: ArchiveWriter,
        groups: Sequence[str] | None,
        note: Callable[[str], None],
    ) -> None:
        self.topic = topic
        self._admin = admin
        self._fetcher = fetcher
        self._archive = archive
        self._groups = None if groups is None else frozenset(groups)
        self._note = note
        self._positions: dict[int, int] | None = None
        self._truncated: set[int] = set()

    def catch_up(self) -> Iterator[Appended]:
        """Append everything up to the present end, piece by piece. Raises ClientError, PeerError or StorageError."""
        if self._positions is None:
            self._positions = self._archive.positions(self.topic)
        ranges = self._chosen(topic_ranges(self._admin, self.topic, positions=self._positions))
        if ranges:
            self._archive.check_topic(self.topic, ranges[0].topic_id)
        for each in ranges:
            self._note_gap(each)
        for fetched in self._fetcher.read([each for each in ranges if each.start < each.end]):
            yield self._append(fetched)

    def _chosen(self, ranges: list[FetchRange]) -> list[FetchRange]:
        if self._groups is None or not ranges or self.topic != CONSUMER_OFFSETS:
            return ranges
        count = 1 + max(each.partition.partition for each in ranges)
        chosen = {coordinator_partition(group, count) for group in self._groups}
        return [each for each in ranges if each.partition.partition in chosen]

    def _note_gap(self, wanted: FetchRange) -> None:
        """Say once which records the archive misses."""
        assert self._positions is not None, "catch_up has read them"
        partition = wanted.partition.partition
        position = self._positions.get(partition)
        if position is not None and wanted.start > position:
            self._positions[partition] = wanted.start
            self._note(f"{self.topic}-{partition}: the records from offset {position} to {wanted.start - 1} were deleted")
        elif wanted.end < wanted.start and partition not in self._truncated:
            self._truncated.add(partition)
            self._note(f"{self.topic}-{partition} was truncated to offset {wanted.end}: new records count from offset {wanted.start} on")

    def _append(self, fetched: FetchedRecords) -> Appended:
        assert self._positions is not None, "catch_up has read them"
        partition = fetched.partition.partition
        batches = [
            Batch(header, fetched.records[at : at + header.size_bytes])
            for at, header in split_batches(fetched.records)
            if header.base_offset >= fetched.position
        ]
        if self._groups is not None:
            batches = self._filtered(batches, self._groups)
        size_bytes = self._archive.append(self.topic, partition, batches)
        self._positions[partition] = fetched.next_offset
        return Appended(sum(batch.header.record_count for batch in batches), size_bytes)

    def _filtered(self, batches: list[Batch], groups: frozenset[str]) -> list[Batch]:
        """The batches that hold a record of the groups, and the last one, which may be empty, for its position."""
        kept = [keep_groups(batch, groups, _GROUP_OF[self.topic]) for batch in batches]
        return [batch for number, batch in enumerate(kept, 1) if batch.header.record_count or number == len(kept)]
