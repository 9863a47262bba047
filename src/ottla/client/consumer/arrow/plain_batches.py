"""Records that were decoded in plain Python as an Arrow batch: small fetches are, because the compiled decoder takes some time to begin."""

import pyarrow as pa

from ottla.client.consumer.plain_columns import LOG_APPEND_TIME, PlainColumns
from ottla.columnar.decoding.record_batch_decoder import COLUMN_TYPES, COLUMNS


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
    names = list(COLUMNS)
    if include_headers:
        names.append("headers")
        values["headers"] = [[{"key": name, "value": value} for name, value in record.headers] or None for record in records]
    arrays = [_numbers(values[name], name) if name == "timestamp" else pa.array(values[name], COLUMN_TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _numbers(values: list[object], name: str) -> pa.Array:
    return pa.array(values, pa.int64()).cast(COLUMN_TYPES[name])
