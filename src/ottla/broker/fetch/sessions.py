"""Fetch sessions (KIP-227): the broker keeps what a client fetches from request to request, so that requests name only what changes.

This module decides which session a request belongs to, which partitions a response contains, in which order they are read, and which
session is evicted when there are too many. Times and session ids are passed in. Source: KIP-227, KIP-516, Kafka's `FetchManager` and
`FetchSessionCacheShard`. There are no followers here, so no session is privileged.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.fetch.messages import FINAL_EPOCH, FULL_EPOCH, NO_SESSION, FetchedPartition, PartitionKey
from ottla.protocol.errors import ErrorCode

_EPOCH_MAX: Final = 2**31 - 1


class FetchSession:
    """One client's session: `partitions` in the order in which they are read next, `epoch` the one of its next request."""

    __slots__ = ("counted", "created_ms", "epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, partitions: dict[PartitionKey, FetchedPartition], now_ms: int) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.partitions = partitions
        self.epoch = next_epoch(FULL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.counted = len(partitions)

    def move_to_back(self, part: FetchedPartition) -> None:
        """Read a partition, which had records, after all others next time."""
        if self.partitions.pop(part.key, None) is not None:
            self.partitions[part.key] = part


class FetchContext:
    """What one request reads: with a `session` if it is incremental, and the epoch of the session unless another request follows."""

    __slots__ = ("epoch", "partitions", "session", "uses_topic_ids", "wants_session")

    def __init__(
        self, partitions: dict[PartitionKey, FetchedPartition], uses_topic_ids: bool, session: FetchSession | None, wants_session: bool
    ) -> None:
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.session = session
        self.epoch = 0 if session is None else session.epoch
        self.wants_session = wants_session

    @property
    def is_superseded(self) -> bool:
        """Whether another request of the same session arrived while this one waited."""
        return self.session is not None and self.session.epoch != self.epoch


def next_epoch(epoch: int) -> int:
    """The epoch after this one; 0 and below are never reached again."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


EVICTION_MS: Final = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms: a session this old may be evicted for a larger one; unused this long, for any."""
PARTITIONS_MAX: Final = 200_000
"""Partitions in all sessions together, some 400 bytes each. Beyond it there are no new sessions: clients send full requests."""


class FetchSessions:
    """A broker's sessions, at most `sessions_max` with `partitions_max` partitions; `new_id` gives any number from 1 to 2^31-1."""

    __slots__ = ("_by_id", "_new_id", "_partitions_max", "_sessions_max", "partitions_count")

    def __init__(self, sessions_max: int, new_id: Callable[[], int], *, partitions_max: int = PARTITIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._new_id = new_id
        self._by_id: dict[int, FetchSession] = {}  # the least recently used comes first
        self.partitions_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def context(
        self,
        session_id: int,
        epoch: int,
        asked: dict[PartitionKey, FetchedPartition],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext | ErrorCode:
        """The partitions that a request reads, in order; an error when the session is unknown or has another epoch."""
        if epoch in (FULL_EPOCH, FINAL_EPOCH):
            self._remove(self._by_id.get(session_id))
            return FetchContext(asked, uses_topic_ids, None, epoch == FULL_EPOCH)
        session = self._by_id.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if asked or forgotten:
            self._change(session, asked, forgotten)
        if not session.partitions:
            self._remove(session)
            return FetchContext(asked, uses_topic_ids, None, False)
        if self.partitions_count > self._partitions_max:
            self._remove(session)  # as if it had been evicted: its client starts a new one
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._by_id[session_id] = self._by_id.pop(session_id)
        session.used_ms = now_ms
        session.epoch = next_epoch(epoch)
        return FetchContext(session.partitions, uses_topic_ids, session, False)

    def create(self, context: FetchContext, now_ms: int) -> int:
        """Create the session that a full request asks for, from its response; return its id, or NO_SESSION when there is no room."""
        size = len(context.partitions)
        if not context.wants_session or self.partitions_count + size > self._partitions_max:
            return NO_SESSION
        if len(self._by_id) >= self._sessions_max and not self._evict(size, now_ms):
            return NO_SESSION
        session_id = self._new_id()
        while session_id in self._by_id:
            session_id = self._new_id()
        self._by_id[session_id] = FetchSession(session_id, context.uses_topic_ids, context.partitions, now_ms)
        self.partitions_count += size
        return session_id

    def _change(self, session: FetchSession, asked: dict[PartitionKey, FetchedPartition], forgotten: Iterable[PartitionKey]) -> None:
        partitions = session.partitions
        for key, wanted in asked.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = wanted
            else:
                known.update(wanted)
        for key in forgotten:
            partitions.pop(key, None)
        self.partitions_count += len(partitions) - session.counted
        session.counted = len(partitions)

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict a session for one of `size` partitions: the one unused for too long, else the smallest old one, if it is smaller."""
        unused = next(iter(self._by_id.values()), None)
        if unused is None:
            return False
        if now_ms - unused.used_ms > EVICTION_MS:
            self._remove(unused)
            return True
        # Kafka's rule: the age of a session is its age when it was last used.
        old = [session for session in self._by_id.values() if session.used_ms - session.created_ms > EVICTION_MS]
        smallest = min(old, key=lambda session: (session.counted, session.id), default=None)
        if smallest is None or smallest.counted >= size:
            return False
        self._remove(smallest)
        return True

    def _remove(self, session: FetchSession | None) -> None:
        if session is not None and self._by_id.pop(session.id, None) is not None:
            self.partitions_count -= session.counted
