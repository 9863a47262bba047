"""Kafka record batches (format v2) to Arrow: the compiled backend, for callers that need columns instead of objects.

It decides the columns' types, which are those of Spark's Kafka source, and builds only the columns that are asked for. It never reads a
socket or a file, and any bytes give Arrow batches or PeerError.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ottla.protocol.arrow.decoding import record_kernels
from ottla.protocol.arrow.decoding.arrow_buffers import Numbers, Strings
from ottla.protocol.arrow.decoding.decoder import ROWS_MAX, Columns, Decoder, schema_of

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
_STRING_WORDS = {"key": record_kernels.KEYS, "value": record_kernels.VALUES}
_STRING_STATES = {
    "key": (record_kernels.KEY_BYTES, record_kernels.KEY_NULLS),
    "value": (record_kernels.VALUE_BYTES, record_kernels.VALUE_NULLS),
}
_NUMBER_WORDS = {
    "offset": record_kernels.OFFSETS,
    "timestamp": record_kernels.TIMESTAMPS,
    "timestampType": record_kernels.TIMESTAMP_TYPES,
}


@lru_cache(maxsize=256)
def repeated(value: str | int, name: str, rows: int) -> pa.Array:
    """A column that has one value in all rows; kept for the next decoder, since some callers make one for each fetch."""
    # From buffers: to make a scalar, Arrow imports pandas, which takes every worker of Spark 0.4 s of CPU.
    if isinstance(value, int):
        return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, pa.py_buffer(np.full(rows, value, np.int32))])
    text = value.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)])


class RecordBatchDecoder(Decoder):
    """Decodes a partition of any topic.

    `columns`: names from COLUMN_TYPES in the order wanted; "headers" is a list of (key, value), null for a record without headers, as in
    Spark's Kafka source. `timestampType` is 0 for CreateTime and 1 for LogAppendTime.
    """

    def __init__(self, topic: str, partition: int, *, columns: Sequence[str] = COLUMNS, rows_max: int = ROWS_MAX) -> None:
        constants: dict[str, str | int] = {"topic": topic, "partition": partition}
        repeats = {name: repeated(value, name, rows_max) for name, value in constants.items() if name in columns}
        super().__init__(record_kernels.decode, _Columns(schema_of(columns, COLUMN_TYPES), rows_max, repeats))


class _Columns(Columns):
    def __init__(self, schema: pa.Schema, rows_max: int, constants: dict[str, pa.Array]) -> None:
        words = (record_kernels.OUT_WORDS, record_kernels.STATE_WORDS)
        super().__init__(schema, rows_max, words, _STRING_WORDS, is_of_one_slice="headers" in schema.names)
        self._constants = constants
        self._numbers: dict[str, Numbers] = {}
        self._strings: dict[str, Strings] = {}
        self._spans = np.empty(rows_max * record_kernels.HEADER_SPAN_WORDS if self.is_of_one_slice else 0, np.int64)

    def _make(self, rows_max: int, capacities: Mapping[str, int]) -> None:
        out = self.out
        out[:] = 0
        out[record_kernels.ROWS_MAX] = rows_max
        for name, word in _STRING_WORDS.items():
            out[word + record_kernels.BINARY_SPACE] = record_kernels.ENDLESS
            if name in capacities:
                self._strings[name] = Strings(COLUMN_TYPES[name], rows_max, capacities[name])
                out[word : word + record_kernels.BINARY_WORDS] = self._strings[name].words
        for name, word in _NUMBER_WORDS.items():
            if name in self.schema.names:
                self._numbers[name] = Numbers(COLUMN_TYPES[name], rows_max)
                out[word] = self._numbers[name].address
        if self.is_of_one_slice:
            out[record_kernels.HEADER_SPANS] = self._spans.ctypes.data

    def take(self, rows: int, *, was_full: bool) -> pa.RecordBatch:
        was_short = was_full and rows < self.out[record_kernels.ROWS_MAX]
        arrays = [self._array(name, rows, was_short) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, rows: int, was_short: bool) -> pa.Array:
        if name in self._constants:
            return self._constants[name][:rows]
        if name in self.capacities:
            used, nulls = self.state[list(_STRING_STATES[name])].tolist()
            self.capacities[name].learn(used, was_full=was_short)
            return self._strings[name].array(rows, used, nulls)
        if name == "headers":
            return self._headers(rows)
        return self._numbers[name].array(rows)

    def _headers(self, rows: int) -> pa.Array:
        counts = self.state[record_kernels.HEADERS : record_kernels.HEADER_VALUE_BYTES + 1].tolist()
        headers, key_bytes, value_bytes = counts
        lists = Strings(pa.binary(), rows, 0)
        keys, values = Strings(pa.binary(), headers, key_bytes), Strings(pa.binary(), headers, value_bytes)
        null_lists, null_values = record_kernels.gather_headers(
            self._spans.ctypes.data, rows, lists.words[0], lists.words[2], *keys.words[:2], *values.words[:3], headers
        )
        children = [_texts(keys.array(headers, key_bytes, 0)), values.array(headers, value_bytes, null_values)]
        entries = pa.StructArray.from_arrays(children, fields=list(HEADER_TYPE.value_type))
        return lists.list_array(HEADER_TYPE, rows, entries, null_lists)


def _texts(keys: pa.Array) -> pa.Array:
    """Header keys as strings. Clients may write any bytes there; like Kafka's own reader we replace what is not UTF-8."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
