"""Fetch sessions, the client's side: requests name only the partitions that changed since the last request (KIP-227). Pure.

A broker keeps what a session fetches, and leaves partitions out of its responses that have nothing new. Here is what it keeps, from request
to request, and what the partitions that it left out are like. Source: Kafka's `FetchSessionHandler` and `FetchMetadata`.
"""

from collections.abc import Sequence
from typing import Final

from ottla.client.fetch.fetch_values import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_REPLICA,
    NO_SESSION,
    PartitionFetch,
    PartitionResponse,
    SessionFields,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

EPOCH_MAX: Final = 2**31 - 1


def without_session(fetches: tuple[PartitionFetch, ...]) -> SessionFields:
    """The fields of a request that has no session."""
    return SessionFields(NO_SESSION, FINAL_EPOCH, fetches)


def next_epoch(epoch: int) -> int:
    """The epoch of the request after the one with `epoch`."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


class FetchSession:
    """The session at one broker; each request is answered, or failed, before the next one."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._last: dict[TopicPartition, PartitionResponse] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker keeps the session, as far as it is known."""
        return self.id != NO_SESSION

    def request(self, fetches: tuple[PartitionFetch, ...]) -> SessionFields:
        """The fields of a request that fetches these partitions and no other ones."""
        before, self._partitions = self._partitions, {fetch.partition: fetch for fetch in fetches}
        if self._epoch == INITIAL_EPOCH:
            self._last.clear()
            return SessionFields(self.id, INITIAL_EPOCH, fetches)
        sent = tuple(fetch for fetch in fetches if before.get(fetch.partition) != fetch)
        forgotten = tuple(fetch for fetch in before.values() if self._is_gone(fetch))
        for fetch in forgotten:
            self._last.pop(fetch.partition, None)
        return SessionFields(self.id, self._epoch, sent, forgotten)

    def on_response(self, error: ErrorCode, session_id: int, responses: Sequence[PartitionResponse]) -> tuple[PartitionResponse, ...]:
        """The response, with the partitions that the broker left out because they have nothing new.

        `error` is that of the whole response, `session_id` the session that the broker keeps, NO_SESSION for none.
        """
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_SESSION
            self._epoch = INITIAL_EPOCH
            return tuple(responses)
        is_full, found = self._epoch == INITIAL_EPOCH, {each.partition for each in responses}
        if is_full or session_id == NO_SESSION:
            self.id = session_id
        # A full response without a partition is that of a broker that throttles (KIP-219).
        is_valid = found == self._partitions.keys() if is_full else found <= self._partitions.keys()
        if not is_valid:
            self._epoch = INITIAL_EPOCH
            return tuple(responses)
        for each in responses:
            if each.error is ErrorCode.NONE:
                self._last[each.partition] = each._replace(records=memoryview(b""), aborted=(), preferred_replica=NO_REPLICA)
            else:
                self._last.pop(each.partition, None)
        unchanged = [last for partition, last in self._last.items() if partition not in found]
        self._epoch = next_epoch(self._epoch) if self.is_open else INITIAL_EPOCH
        return (*responses, *unchanged)

    def on_no_response(self) -> None:
        """The request was lost, or answered with nonsense: the next one closes the session and begins another."""
        self._epoch = INITIAL_EPOCH

    def _is_gone(self, fetch: PartitionFetch) -> bool:
        """Whether a partition of the last request is not in this one, or with another topic."""
        now = self._partitions.get(fetch.partition)
        return now is None or "" != fetch.topic_id != now.topic_id


class FetchSessions:
    """The sessions of one client, by broker id."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._closing: set[int] = set()

    def of(self, broker_id: int) -> FetchSession:
        """The session at a broker."""
        return self._sessions.setdefault(broker_id, FetchSession())

    @property
    def is_open(self) -> bool:
        """Whether a broker keeps a session, or the request that closes it is not answered."""
        return bool(self._closing) or any(session.is_open for session in self._sessions.values())

    def close(self) -> dict[int, SessionFields]:
        """The fields of requests that close the sessions, by broker id; the outcome of each is for `on_closed`."""
        closing = {broker_id: SessionFields(each.id, FINAL_EPOCH, ()) for broker_id, each in self._sessions.items() if each.is_open}
        self._sessions.clear()
        self._closing.update(closing)
        return closing

    def on_closed(self, broker_id: int) -> None:
        """A request that closes a session was answered, or lost: the broker then forgets the session by itself some time."""
        self._closing.discard(broker_id)
