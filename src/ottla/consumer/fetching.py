"""The fetch client: every record of some ranges of offsets, as the brokers' own record batches."""

import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from ottla.consumer.cluster import Cluster
from ottla.consumer.reading import PartitionReader
from ottla.consumer.settings import ClientSettings
from ottla.core.consuming.ranges import FetchedRecords, FetchRange

__all__ = ["FetchRange", "FetchedRecords", "Fetcher"]


class _Whole(NamedTuple):
    records: memoryview
    next_offset: int | None


def _scan(records: memoryview) -> _Whole:
    at, next_offset = 0, None
    while at + 61 <= len(records):
        base, size = struct.unpack_from(">qi", records, at)
        if at + 12 + size > len(records):
            break
        next_offset = base + struct.unpack_from(">i", records, at + 23)[0] + 1
        at += 12 + size
    return _Whole(records[:at], next_offset)


class Fetcher:
    """Reads ranges; one for a process and its settings. It keeps its connections between uses, and is not for two threads at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._cluster = Cluster(settings.bootstrap_servers, client_id=settings.client_id, timeout_ms=settings.request_timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        """Every record of every range; partitions come interleaved, each in the order of its offsets."""
        for partition, start, end, _ in ranges:
            reader = PartitionReader(
                self._cluster,
                partition,
                bytes_max=self._settings.max_partition_fetch_bytes,
                wait_ms_max=self._settings.fetch_max_wait_ms,
            )
            position = start
            for whole in reader.read(start, end, _scan):
                yield FetchedRecords(partition, position, whole.next_offset or position, whole.records)
                position = whole.next_offset or position

    def fetch_ahead(self, ranges: Sequence[FetchRange]) -> None:
        """Asks for ranges that a later `read` will begin with."""

    def close(self) -> None:
        """Close every connection."""
        self._cluster.close()
