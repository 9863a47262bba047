"""Buffered batches as Arrow columns.

Fetched records by the compiled decoder: columns of Arrow, whose bytes become Python's as they are asked for.

Records that were decoded in plain Python as an Arrow batch: small fetches are, because the compiled decoder takes some time to begin.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.consumer.plain_columns import CREATE_TIME, LOG_APPEND_TIME, NOT_AVAILABLE, PlainColumns, out_of_order
from ottla.client.engine.record_buffer import Columns
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.arrow.decoder import COLUMN_TYPES, HEADER_TYPE, ROWS_MAX, RecordBatchDecoder, repeated
from ottla.protocol.arrow.decoder import COLUMNS as SPARK_COLUMNS
from ottla.protocol.records.batch import NO_TIMESTAMP, split_batches

LONG_BYTES = 400
"""From so many bytes on average, byte strings are made one by one."""
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType")
_Epochs = tuple[list[int], list[int]]
"""Base offsets of batches, and the epochs of their leaders."""


class _LongStrings:
    """A column of long byte strings without nulls, each made when it is asked for: made at once, they would not stay in the cache."""

    def __init__(self, bounds: list[int], data: pa.Buffer) -> None:
        self._bounds = bounds
        self._data = memoryview(data)

    def __getitem__(self, row: Any) -> Any:
        if type(row) is slice:
            return self._some(row.start, row.stop)
        return self._data[self._bounds[row] : self._bounds[row + 1]].tobytes()

    def _some(self, first: int, end: int) -> list[bytes]:
        """Rows `first` to `end` (exclusive): in half of the time, as long as their bytes stay in the cache."""
        begin = self._bounds[first]
        data = self._data[begin : self._bounds[end]].tobytes()
        return [data[each - begin : following - begin] for each, following in pairwise(self._bounds[first : end + 1])]


def _byte_strings(column: pa.Array) -> list[bytes | None] | _LongStrings:
    """A column of byte strings as Python's, by row; nulls are None."""
    if column.null_count == len(column):
        return [None] * len(column)
    _, ends, data = column.buffers()
    first = column.offset
    bounds = np.frombuffer(ends, np.int32)[first : first + len(column) + 1].tolist()
    if not column.null_count and bounds[-1] - bounds[0] > LONG_BYTES * len(column):
        return _LongStrings(bounds, data)
    all_bytes = b"" if data is None else data.to_pybytes()
    found: list[bytes | None] = [all_bytes[begin:end] for begin, end in pairwise(bounds)]
    for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else ():
        found[row] = None
    return found


class ArrowColumns:
    """Records of one partition; `size_bytes`: their memory, with what is decompressed for the next ones."""

    def __init__(self, batch: pa.RecordBatch, fetched: FetchedRecords, *, expanded_bytes: int, epochs: _Epochs) -> None:
        self.topic, self.partition = fetched.partition
        self.size_bytes: int = batch.nbytes + expanded_bytes
        self._batch = batch
        self._fetched = fetched
        self._epochs = epochs
        self._rows = len(batch)

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def keys(self) -> list[bytes | None] | _LongStrings:
        """The records' keys."""
        return _byte_strings(self._batch.column("key"))

    @cached_property
    def values(self) -> list[bytes | None] | _LongStrings:
        """The records' values."""
        return _byte_strings(self._batch.column("value"))

    @cached_property
    def offsets(self) -> list[int]:
        """The records' offsets."""
        return self._list("offset")

    @cached_property
    def _times(self) -> list[int]:
        return (self._numbers("timestamp").view(np.int64) // 1000).tolist()  # type: ignore[no-any-return]

    @cached_property
    def _time_types(self) -> list[int]:
        return self._list("timestampType")

    def slice(self, first: int, end: int, *, include_headers: bool) -> pa.RecordBatch:
        """Rows `first` to `end` (exclusive), with the columns of the Spark source."""
        arrays = {name: self._batch.column(name) for name in COLUMNS}
        arrays |= {"topic": repeated(self.topic, "topic", ROWS_MAX), "partition": repeated(self.partition, "partition", ROWS_MAX)}
        names = [*SPARK_COLUMNS, *(["headers"] if include_headers else [])]
        if include_headers:
            arrays["headers"] = self._headers
        return pa.RecordBatch.from_arrays([arrays[name][first:end] for name in names], names=names)

    def offset(self, row: int) -> int:
        """A record's offset."""
        return self.offsets[row]

    def leader_epoch(self, row: int) -> int:
        """The leader epoch of a record's batch."""
        bases, epochs = self._epochs
        return epochs[bisect_right(bases, self.offsets[row]) - 1]

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """A record's headers, None without any."""
        found = self._headers[row].as_py()
        return [(each["key"], each["value"]) for each in found] if found else None

    @cached_property
    def _headers(self) -> pa.Array:
        """Decoded when the application first asks for any: few do, and they cost as much as the rest."""
        found, rows = [], 0
        batches = _decoder(self._fetched, ("headers",)).decode(
            self._fetched.records, offset_start=self.offset(0), offset_end=self.offset(self._rows - 1) + 1, aborted=self._fetched.aborted
        )
        while rows < self._rows:  # what follows may be damaged
            found.append(next(batches).column(0))
            rows += len(found[-1])
        return pa.chunked_array(found, HEADER_TYPE).combine_chunks()

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


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The records of several batches, at least one, as one batch."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def decode_arrow(fetched: FetchedRecords) -> Iterator[Columns]:
    """The records from `position` on, thousands at a time. Raises PeerError for damaged batches; what is before them comes first."""
    batch_headers = [header for _, header in split_batches(fetched.records)]
    epochs = [header.base_offset for header in batch_headers], [header.leader_epoch for header in batch_headers]
    decoder, following = _decoder(fetched, COLUMNS), fetched.position
    for batch in decoder.decode(fetched.records, offset_start=fetched.position, aborted=fetched.aborted):
        offsets = batch.column("offset").to_numpy()
        if offsets[0] < following or (offsets[1:] <= offsets[:-1]).any():
            raise out_of_order(following)
        following = offsets[-1] + 1
        yield ArrowColumns(batch, fetched, expanded_bytes=decoder.expanded_bytes, epochs=epochs)


def _decoder(fetched: FetchedRecords, columns: Sequence[str]) -> RecordBatchDecoder:
    return RecordBatchDecoder(*fetched.partition, columns=columns)


def plain_batch(columns: PlainColumns, first: int, end: int, *, include_headers: bool) -> pa.RecordBatch:
    """Rows `first` to `end` (exclusive), equal to what the compiled decoder gives for them."""
    records = columns.records[first:end]
    values: dict[str, list[object]] = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "topic": [columns.topic] * len(records),
        "partition": [columns.partition] * len(records),
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp_ms * 1000 for record in records],
        "timestampType": [int(columns.time_type == LOG_APPEND_TIME)] * len(records),
    }
    names = list(SPARK_COLUMNS)
    if include_headers:
        names.append("headers")
        values["headers"] = [[{"key": name, "value": value} for name, value in record.headers] or None for record in records]
    arrays = [_numbers(values[name], name) if name == "timestamp" else pa.array(values[name], COLUMN_TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _numbers(values: list[object], name: str) -> pa.Array:
    return pa.array(values, pa.int64()).cast(COLUMN_TYPES[name])
