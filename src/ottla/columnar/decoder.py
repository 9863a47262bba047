"""Kafka record batches (format v2) to Arrow: the fast lane for whoever wants columns and not objects.

It decides the columns' types, which are those of Spark's Kafka source, and builds only the columns that are asked for. It never reads a
socket or a file, and whatever the bytes are it answers with Arrow batches or with PeerError.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ottla.columnar import kernels
from ottla.columnar.batches import Array, Batches, Group, groups, scan
from ottla.columnar.transactions import Aborted
from ottla.core.errors import PeerError

HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
COLUMN_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADER_TYPE,
}
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
OFFSET_END_MAX = 2**63 - 1
ROWS_MAX = 16_384
"""Most rows of an Arrow batch: enough to hide the cost of a call, few enough to stay in the processor's cache."""

_KEY, _VALUE = 0, 2
_SPAN_COLUMNS = 6


class RecordBatchDecoder:
    """Decodes the fetched bytes of one partition; keeps its scratch memory from call to call, so it is for one thread.

    `columns`: names from COLUMN_TYPES in the order wanted; "headers" is a list of (key, value), null for a record without headers, as in
    Spark's Kafka source. `timestampType` is 0 for CreateTime and 1 for LogAppendTime.
    """

    def __init__(self, topic: str, partition: int, *, columns: Sequence[str] = COLUMNS, rows_max: int = ROWS_MAX) -> None:
        unknown = [name for name in columns if name not in COLUMN_TYPES]
        if unknown:
            raise ValueError(f"unknown column {unknown[0]}; there are {', '.join(COLUMN_TYPES)}")
        self.schema = pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
        self.rows_max = rows_max
        self._spans = np.empty((rows_max, _SPAN_COLUMNS), np.int64)
        self._totals = np.empty(5, np.int64)
        constants = {"topic": pa.scalar(topic, pa.string()), "partition": pa.scalar(partition, pa.int32())}
        self._constants = {name: pa.repeat(value, rows_max) for name, value in constants.items() if name in columns}

    def decode(
        self,
        records: bytes | bytearray | memoryview | Batches,
        *,
        offset_start: int = 0,
        offset_end: int = OFFSET_END_MAX,
        aborted: Aborted = (),
    ) -> Iterator[pa.RecordBatch]:
        """The records with offset_start <= offset < offset_end, as Arrow batches of at most `rows_max` rows; control records are left out,
        and so are the records of `aborted` transactions (producer id and first offset, as the Fetch answer with these bytes has them).

        Raises PeerError on bytes that are no record batches, a wrong CRC-32C or bad compressed data; batches before the bad one have
        been given out by then.
        """
        batches = records if isinstance(records, Batches) else scan(records)
        bounds = (offset_start, offset_end)
        for group in groups(batches, bounds, self.rows_max, aborted):
            yield from self._decode_group(group, bounds)

    def _decode_group(self, group: Group, bounds: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        cursor = np.array([0, -1, 0], np.int64)
        while cursor[kernels.CURSOR_BATCH] < len(group.table):
            rows_max = min(self.rows_max, max(int(group.table[:, kernels.RECORD_COUNT].sum()), 1))
            columns = (np.empty(rows_max, np.int64), np.empty(rows_max, np.int64), np.empty(rows_max, np.int32))
            spans = self._spans[:rows_max]
            rows, status = kernels.parse_records(group.buffer, group.table, bounds, cursor, columns, spans, self._totals)
            if status != kernels.OK:
                raise PeerError(kernels.STATUS_TEXTS[status])
            if rows:
                yield self._batch(group.buffer, rows, columns, spans[:rows])

    def _batch(self, buffer: Array, rows: int, columns: tuple[Array, Array, Array], spans: Array) -> pa.RecordBatch:
        arrays = [self._column(name, buffer, rows, columns, spans) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, buffer: Array, rows: int, columns: tuple[Array, Array, Array], spans: Array) -> pa.Array:
        match name:
            case "key":
                return _binary(buffer, spans, _KEY, int(self._totals[kernels.KEY_BYTES]))
            case "value":
                return _binary(buffer, spans, _VALUE, int(self._totals[kernels.VALUE_BYTES]))
            case "offset":
                return _numbers(pa.int64(), columns[0], rows)
            case "timestamp":
                return _numbers(COLUMN_TYPES["timestamp"], columns[1], rows)
            case "timestampType":
                return _numbers(pa.int32(), columns[2], rows)
            case "headers":
                return self._headers(buffer, spans)
            case _:
                return self._constants[name][:rows]

    def _headers(self, buffer: Array, spans: Array) -> pa.Array:
        rows = len(spans)
        headers = int(self._totals[kernels.HEADERS])
        pairs = np.empty((headers, 4), np.int64)
        offsets = np.empty(rows + 1, np.int32)
        valid_bits = np.zeros((rows + 7) // 8, np.uint8)
        nulls = kernels.gather_headers(buffer, spans, offsets, valid_bits, pairs)
        keys = _texts(_binary(buffer, pairs, _KEY, int(self._totals[kernels.HEADER_KEY_BYTES])))
        values = _binary(buffer, pairs, _VALUE, int(self._totals[kernels.HEADER_VALUE_BYTES]))
        entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE.value_type))
        return pa.Array.from_buffers(HEADER_TYPE, rows, [_bits(valid_bits, nulls), pa.py_buffer(offsets)], nulls, children=[entries])


def _binary(buffer: Array, spans: Array, first: int, size: int) -> pa.Array:
    """An Arrow array of byte strings: `spans` says where in `buffer` they lie, `size` is their sum (below 2 GiB, see batches)."""
    rows = len(spans)
    offsets = np.empty(rows + 1, np.int32)
    data = np.empty(size, np.uint8)
    valid_bits = np.zeros((rows + 7) // 8, np.uint8)
    nulls = kernels.gather_bytes(buffer, spans, first, offsets, data, valid_bits)
    return pa.Array.from_buffers(pa.binary(), rows, [_bits(valid_bits, nulls), pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _texts(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Clients may put any bytes there; like Kafka's own reader we replace what is not UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _numbers(kind: pa.DataType, values: Array, rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values[:rows])], 0)


def _bits(bits: Array, nulls: int) -> pa.Buffer | None:
    return pa.py_buffer(bits) if nulls else None
