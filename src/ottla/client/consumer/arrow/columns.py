"""Fetched records by the compiled decoder: columns of Arrow, whose bytes become Python's as they are asked for."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.consumer.plain_columns import CREATE_TIME, LOG_APPEND_TIME, NOT_AVAILABLE
from ottla.columnar.decoding.record_batch_decoder import RecordBatchDecoder
from ottla.core.client.consumer.record_buffer import Columns
from ottla.core.client.fetch_values import FetchedRecords
from ottla.core.records.batch import NO_TIMESTAMP, split_batches

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType")
_Epochs = tuple[list[int], list[int]]
"""Base offsets of batches, and the epochs of their leaders."""


class _Bytes:
    """A column of byte strings; nulls are None."""

    __slots__ = ("_data", "_ends", "_is_valid")

    def __init__(self, column: pa.Array) -> None:
        _, ends, data = column.buffers()
        first = column.offset
        self._ends: list[int] = np.frombuffer(ends, np.int32)[first : first + len(column) + 1].tolist()
        self._data = b"" if data is None else data.to_pybytes()
        self._is_valid: list[bool] | None = column.is_valid().to_pylist() if column.null_count else None

    def __getitem__(self, row: int) -> bytes | None:
        if self._is_valid is not None and not self._is_valid[row]:
            return None
        return self._data[self._ends[row] : self._ends[row + 1]]


class _Headers:
    """The headers of a fetch's records, decoded when the application first asks for any: few do, and they cost as much as the rest."""

    def __init__(self, fetched: FetchedRecords) -> None:
        self._fetched = fetched

    def __getitem__(self, row: int) -> list[tuple[str, bytes | None]] | None:
        found = self._rows[row].as_py()
        return [(each["key"], each["value"]) for each in found] if found else None

    @cached_property
    def _rows(self) -> Any:
        return pa.chunked_array([batch.column(0) for batch in _decode(self._fetched, ("headers",))])


class ArrowColumns:
    """Records of one partition; `first`: how many of the fetch are before them."""

    def __init__(self, batch: pa.RecordBatch, fetched: FetchedRecords, first: int, *, headers: _Headers, epochs: _Epochs) -> None:
        self.topic, self.partition = fetched.partition
        self._batch = batch
        self._first = first
        self._headers = headers
        self._epochs = epochs
        self._rows = len(batch)

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def _keys(self) -> _Bytes:
        return _Bytes(self._batch.column("key"))

    @cached_property
    def _values(self) -> _Bytes:
        return _Bytes(self._batch.column("value"))

    @cached_property
    def _offsets(self) -> list[int]:
        return self._list("offset")

    @cached_property
    def _times(self) -> list[int]:
        return (self._numbers("timestamp").view(np.int64) // 1000).tolist()  # type: ignore[no-any-return]

    @cached_property
    def _time_types(self) -> list[int]:
        return self._list("timestampType")

    def offset(self, row: int) -> int:
        """A record's offset."""
        return self._offsets[row]

    def leader_epoch(self, row: int) -> int:
        """The leader epoch of a record's batch."""
        bases, epochs = self._epochs
        return epochs[bisect_right(bases, self._offsets[row]) - 1]

    def key(self, row: int) -> bytes | None:
        """A record's key."""
        return self._keys[row]

    def value(self, row: int) -> bytes | None:
        """A record's value."""
        return self._values[row]

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """A record's headers, None without any."""
        return self._headers[self._first + row]

    def timestamp(self, row: int) -> tuple[int, int]:
        """The type of a record's time, and the time."""
        time_ms = self._times[row]
        if time_ms == NO_TIMESTAMP:
            return NOT_AVAILABLE
        return (LOG_APPEND_TIME if self._time_types[row] else CREATE_TIME), time_ms

    def _numbers(self, name: str) -> Any:
        return self._batch.column(name).to_numpy(zero_copy_only=False)

    def _list(self, name: str) -> list[int]:
        return self._numbers(name).tolist()  # type: ignore[no-any-return]


def decode_arrow(fetched: FetchedRecords) -> Iterator[Columns]:
    """The records from `position` on, thousands at a time. Raises PeerError for damaged batches; what is before them comes first."""
    batch_headers = [header for _, header in split_batches(fetched.records)]
    epochs = [header.base_offset for header in batch_headers], [header.leader_epoch for header in batch_headers]
    headers, first = _Headers(fetched), 0
    for batch in _decode(fetched, COLUMNS):
        yield ArrowColumns(batch, fetched, first, headers=headers, epochs=epochs)
        first += len(batch)


def _decode(fetched: FetchedRecords, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    decoder = RecordBatchDecoder(*fetched.partition, columns=columns)
    return decoder.decode(fetched.records, offset_start=fetched.position, aborted=fetched.aborted)
