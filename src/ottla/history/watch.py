"""One look after another: the offsets topic and group events into the archive, then the admin API, until it is time to stop.

A failure of one look is said once and tried again at the next; only the first look has to succeed.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ottla.cli.watch.polling import Poller
from ottla.cli.watch.tail import TopicTail
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError, RequestFailedError, UnknownTopicError
from ottla.client.fetch.fetcher import Fetcher
from ottla.core.diagnosis.evidence.snapshot_lines import SnapshotWriter, note_line, topics_line
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.metadata.topics import CONSUMER_OFFSETS, GROUP_EVENTS
from ottla.storage.archive.writer import ArchiveWriter

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
    """Looks at a cluster. `say` is called with each sentence that a person should see, `show` whenever the summary has new figures."""

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
    ) -> None:
        self.summary = WatchSummary()
        self._archive = archive
        self._now_ms = now_ms
        self._say = say
        self._show = show
        self._said: set[str] = set()
        self._poller = Poller(admin, groups=groups, now_ms=now_ms, note=self._note)
        self._writer = SnapshotWriter()
        self._offsets_ms: int | None = None
        self._topic_names: dict[str, str] = {}
        self._tails = [
            TopicTail(topic, admin=admin, fetcher=fetcher, archive=archive, groups=groups, note=self._note)
            for topic in (CONSUMER_OFFSETS, GROUP_EVENTS)
        ]

    def look(self) -> None:
        """Look once. Raises ClientError, PeerError or StorageError."""
        for tail in self._tails:
            self._catch_up(tail)
        has_offsets = self._wants_offsets()
        snapshots = self._poller.look(with_offsets=has_offsets)
        lines = self._writer.lines(self._now_ms(), snapshots, has_offsets=has_offsets)
        if self._poller.topic_names != self._topic_names:
            new = {each: name for each, name in self._poller.topic_names.items() if self._topic_names.get(each) != name}
            self._topic_names = self._poller.topic_names
            if new:
                lines.insert(0, topics_line(self._now_ms(), new))
        self.summary.stored_bytes += self._archive.append_lines(lines)
        self.summary.groups = len(snapshots)
        self.summary.looks += 1
        self.summary.last_look_ms = self._now_ms()

    def _wants_offsets(self) -> bool:
        """Whether to look at offsets, too: they are many, and commits are in the offsets topic where that is read."""
        now_ms = self._now_ms()
        is_due = self._offsets_ms is None or now_ms - self._offsets_ms >= OFFSETS_INTERVAL_MS
        if is_due:
            self._offsets_ms = now_ms
        return is_due or not self.summary.reads_topic

    def try_look(self) -> None:
        """Look once; a failure of the cluster is said. Raises StorageError."""
        try:
            self.look()
        except (ClientError, PeerError) as error:
            self.summary.failed_looks += 1
            self._say_once(f"{error}; it is tried again at the next look")
        else:
            self._said.clear()

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
