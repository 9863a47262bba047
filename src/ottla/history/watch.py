"""Watching a cluster: look after look, its offsets topic and group events go into an archive, then what the admin API says of its groups.

A topic is read from where the archive ends to where it ends now, batch by batch as the broker holds them. A failure of one look is said
once and tried again at the next; only the first look has to succeed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.client.fetch.fetch_values import FetchedRecords, FetchRange
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.log.records import group_of_event, group_of_record, keep_groups
from ottla.history.live import LiveHistory
from ottla.history.sources.admin import GroupSnapshot, Poller, SnapshotWriter, note_line, topics_line
from ottla.history.sources.archive import ArchiveWriter
from ottla.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.records.batch import Batch, split_batches

_GROUP_OF: Final = {CONSUMER_OFFSETS: group_of_record, GROUP_EVENTS: group_of_event}


class Appended(NamedTuple):
    """What was added."""

    records: int
    size_bytes: int


class TopicTail:
    """One topic, OFFSETS or GROUP_EVENTS, into an archive. `note` is called with a sentence about records that are missing, `read` with
    the topic, the partition and each batch that was stored."""

    def __init__(
        self,
        topic: str,
        *,
        admin: AdminClient,
        fetcher: Fetcher,
        archive: ArchiveWriter,
        groups: Sequence[str] | None,
        note: Callable[[str], None],
        read: Callable[[str, int, Batch], None] | None = None,
    ) -> None:
        self.topic = topic
        self._admin = admin
        self._fetcher = fetcher
        self._archive = archive
        self._groups = None if groups is None else frozenset(groups)
        self._note = note
        self._read = read
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
        if self._read is not None:
            for batch in batches:
                self._read(self.topic, partition, batch)
        return Appended(sum(batch.header.record_count for batch in batches), size_bytes)

    def _filtered(self, batches: list[Batch], groups: frozenset[str]) -> list[Batch]:
        """The batches that hold a record of the groups, and the last one, which may be empty, for its position."""
        kept = [keep_groups(batch, groups, _GROUP_OF[self.topic]) for batch in batches]
        return [batch for number, batch in enumerate(kept, 1) if batch.header.record_count or number == len(kept)]


REFUSED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
OFFSETS_INTERVAL_MS: Final = 60_000
"""Where the offsets topic is read, committed offsets and ends of logs (the lag) are looked at this often, and not at each look."""


@dataclass(slots=True)
class WatchSummary:
    """What was stored since the start. `reads_topic`: whether the offsets topic may be read; None before it exists."""

    looks: int = 0
    groups: int = 0
    records: int = 0
    stored_bytes: int = 0
    failed_looks: int = 0
    reads_topic: bool | None = None
    last_look_ms: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return asdict(self)


class Watch:
    """Looks at a cluster. `say` is called with each sentence that a person should see, `show` whenever the summary has new figures.

    With `live` each look is followed by its judgement, and asks for committed offsets, which are stored once a minute all the same.
    snapshots: all groups at the last look, which took `look_ms`; the poller has more of them.
    """

    def __init__(
        self,
        *,
        admin: AdminClient,
        fetcher: Fetcher,
        archive: ArchiveWriter,
        groups: Sequence[str] | None,
        now_ms: Callable[[], int],
        say: Callable[[str], None],
        show: Callable[[], None] = lambda: None,
        live: LiveHistory | None = None,
    ) -> None:
        self.summary = WatchSummary()
        self.live = live
        self.snapshots: list[GroupSnapshot] = []
        self.poller = Poller(admin, groups=groups, now_ms=now_ms, note=self._note)
        self.look_ms = 0
        self._admin = admin
        self._archive = archive
        self._now_ms = now_ms
        self._say = say
        self._show = show
        self._said: set[str] = set()
        self._writer = SnapshotWriter()
        self._offsets_ms: int | None = None
        self._topic_names: dict[str, str] = {}
        read = None if live is None else lambda topic, partition, batch: live.read_batch(topic, partition, batch, now_ms())
        self._tails = [
            TopicTail(topic, admin=admin, fetcher=fetcher, archive=archive, groups=groups, note=self._note, read=read)
            for topic in (CONSUMER_OFFSETS, GROUP_EVENTS)
        ]

    def look(self) -> None:
        """Look once. Raises ClientError, PeerError or StorageError."""
        started_ms, live = self._now_ms(), self.live
        if live is not None and not live.topic_names:
            live.topic_names.update({topic.topic_id: name for name, topic in self._admin.list_topics().items() if topic.topic_id})
        for tail in self._tails:
            self._catch_up(tail)
        has_offsets = self._wants_offsets()
        snapshots = self.poller.look(with_offsets=has_offsets or live is not None)
        lines = self._writer.lines(self._now_ms(), snapshots, has_offsets=has_offsets, failed=self.poller.failed)
        if self.poller.topic_names != self._topic_names:
            new = {item: name for item, name in self.poller.topic_names.items() if self._topic_names.get(item) != name}
            self._topic_names = self.poller.topic_names
            if new:
                lines.insert(0, topics_line(self._now_ms(), new))
        self.summary.stored_bytes += self._archive.append_lines(lines)
        self.summary.groups = len(snapshots)
        self.summary.looks += 1
        self.summary.last_look_ms = self._now_ms()
        self.snapshots = snapshots
        if live is not None:
            live.topic_names.update(self.poller.topic_names)
            live.read_look(snapshots, self._now_ms())
            live.update(self._now_ms())
        self.look_ms = self._now_ms() - started_ms

    def _wants_offsets(self) -> bool:
        """Whether to look at offsets, too: they are many, and commits are in the offsets topic where that is read."""
        now_ms = self._now_ms()
        is_due = self._offsets_ms is None or now_ms - self._offsets_ms >= OFFSETS_INTERVAL_MS
        if is_due:
            self._offsets_ms = now_ms
        return is_due or not self.summary.reads_topic

    def try_look(self) -> str | None:
        """Look once; a failure of the cluster is said, and returned. Raises StorageError."""
        try:
            self.look()
        except (ClientError, PeerError) as error:
            self.summary.failed_looks += 1
            self._say_once(f"{error}; it is tried again at the next look")
            return str(error)
        self._said.clear()
        return None

    def _catch_up(self, tail: TopicTail) -> None:
        is_offsets = tail.topic == CONSUMER_OFFSETS
        try:
            for appended in tail.catch_up():
                self.summary.records += appended.records
                self.summary.stored_bytes += appended.size_bytes
                self._show()
        except UnknownTopicError:
            return  # no group has made it yet, or no broker of Ottla's is there to publish events
        except RequestFailedError as error:
            if error.code not in REFUSED:
                raise
            if is_offsets and self.summary.reads_topic is not False:
                self.summary.reads_topic = False
                self._note(
                    f"{tail.topic} may not be read ({error.code.name}): groups are only polled, and what happens between two looks "
                    f"is missed; allow READ on topic {tail.topic} for the whole history"
                )
            return
        if is_offsets:
            self.summary.reads_topic = True

    def _note(self, text: str) -> None:
        """A sentence for the archive and for people."""
        self._archive.append_lines([note_line(self._now_ms(), text)])
        self._say(text)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)
