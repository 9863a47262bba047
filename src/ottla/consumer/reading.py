"""One partition from one offset to another, as the broker's own record batches: the next Fetch is on its way while a batch is worked on.

It decides when to ask again, when to look for another leader, and when records are missing. It never decodes a record: whoever reads says
with `scan` where the batches end.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from ottla.consumer.cluster import Cluster
from ottla.consumer.connection import Connection
from ottla.consumer.errors import ClientError, OffsetOutOfRangeError, RequestFailedError, UnknownTopicError
from ottla.consumer.fetch_messages import API_KEY, VERSION, Fetched, decode_fetch, encode_fetch
from ottla.consumer.patience import Patience
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition


class Scanned(Protocol):
    """Batches of one answer; `next_offset` is the offset after the last whole batch, None without one."""

    @property
    def next_offset(self) -> int | None: ...


S = TypeVar("S", bound=Scanned)


class PartitionReader:
    """Reads one partition; `bytes_max` bounds one answer (a larger first batch comes all the same), `wait_ms_max` an empty one."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        *,
        bytes_max: int = 4 * 1024 * 1024,
        wait_ms_max: int = 500,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._bytes_max = bytes_max
        self._wait_ms_max = wait_ms_max
        self._pause = pause

    def read(self, start: int, end: int, scan: Callable[[memoryview], S]) -> Iterator[S]:
        """Scanned answers that hold every record with start <= offset < end; the first and last batch may hold others too.

        Raises OffsetOutOfRangeError when the broker no longer holds `start` or does not reach `end`, UnknownTopicError,
        PeerError, and when trying again does not help (see `patience`) BrokerUnavailableError or RequestFailedError.
        """
        patience = Patience(self._cluster, self._pause)
        position, asked = start, None
        try:
            while position < end:
                try:
                    asked = asked or self._ask(position)
                    scanned = scan(self._answer(asked, position, end).records)
                    following = scanned.next_offset
                    if following is None:
                        raise RequestFailedError(f"no records at offset {position} of {self._name}", ErrorCode.OFFSET_NOT_AVAILABLE)
                except ClientError as error:
                    asked = None
                    patience.bear(error)
                    continue
                if following <= position:
                    raise PeerError(f"a Fetch from offset {position} of {self._name} was answered with records before it")
                position = following
                asked = self._ask_ahead(position) if position < end else None
                patience.progress()
                yield scanned
        finally:
            if asked is not None:
                # An answer is still on its way: nobody else may take it for theirs.
                self._cluster.forget()

    @property
    def _name(self) -> str:
        return f"partition {self._partition.partition} of topic {self._partition.topic}"

    def _ask(self, position: int) -> Connection:
        connection = self._cluster.leader(self._partition)
        body = encode_fetch(*self._partition, position, bytes_max=self._bytes_max, wait_ms_max=self._wait_ms_max)
        connection.send(API_KEY, VERSION, body)
        return connection

    def _ask_ahead(self, position: int) -> Connection | None:
        """Ask before the batches at hand are worked on, so that broker and reader work at the same time.

        None when it fails: then it is asked again afterwards, and what fails again is told.
        """
        try:
            return self._ask(position)
        except ClientError:
            return None

    def _answer(self, connection: Connection, position: int, end: int) -> Fetched:
        fetched = decode_fetch(connection.receive(), *self._partition)
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRangeError(self._partition, position, fetched.log_start_offset, fetched.high_watermark)
        if fetched.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(f"{self._name} does not exist any more")
        if fetched.error is not ErrorCode.NONE:
            raise RequestFailedError(f"{self._name}: {fetched.error.name}", fetched.error)
        if not fetched.records and fetched.high_watermark < end:
            raise OffsetOutOfRangeError(self._partition, position, fetched.log_start_offset, fetched.high_watermark)
        return fetched
