"""Records of the offsets topic (`__consumer_offsets`) to Arrow: one row for every record, typed columns instead of bytes.

It decides the columns, and that nothing is dropped: a record of an unknown type or version, or one that cannot be read, is a row that says
so (`is_known`). It keeps no state of groups, and never judges what a record means.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ottla.columnar.decoder import COLUMN_TYPES, OFFSET_END_MAX, ROWS_MAX, RecordBatchDecoder
from ottla.columnar.group_record_rows import Row, row_of

_TIMESTAMP = COLUMN_TYPES["timestamp"]
MEMBER_TYPE = pa.struct(
    {
        "member_id": pa.string(),
        "group_instance_id": pa.string(),
        "client_id": pa.string(),
        "client_host": pa.string(),
        "rebalance_timeout": pa.int32(),
        "session_timeout": pa.int32(),
        "subscribed_topics": pa.list_(pa.string()),
        "assignment": pa.map_(pa.string(), pa.list_(pa.int32())),
    }
)
GROUP_RECORD_TYPES: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIMESTAMP,
    "record_type": pa.int32(),
    "is_known": pa.bool_(),
    "is_tombstone": pa.bool_(),
    "group": pa.string(),
    "topic": pa.string(),
    "topic_partition": pa.int32(),
    "committed_offset": pa.int64(),
    "leader_epoch": pa.int32(),
    "metadata": pa.string(),
    "commit_timestamp": _TIMESTAMP,
    "expire_timestamp": _TIMESTAMP,
    "topic_id": pa.string(),
    "value_version": pa.int32(),
    "protocol_type": pa.string(),
    "generation": pa.int32(),
    "protocol": pa.string(),
    "leader": pa.string(),
    "state_timestamp": _TIMESTAMP,
    "members": pa.list_(MEMBER_TYPE),
    "record": pa.string(),
}


class GroupRecordDecoder:
    """Decodes the fetched bytes of one partition of the offsets topic; for one thread. `columns`: names from GROUP_RECORD_TYPES."""

    def __init__(self, partition: int, *, columns: Sequence[str] = tuple(GROUP_RECORD_TYPES), rows_max: int = ROWS_MAX) -> None:
        unknown = [name for name in columns if name not in GROUP_RECORD_TYPES]
        if unknown:
            raise ValueError(f"unknown column {unknown[0]}; there are {', '.join(GROUP_RECORD_TYPES)}")
        self.schema = pa.schema([pa.field(name, GROUP_RECORD_TYPES[name]) for name in columns])
        self._partition = partition
        self._records = RecordBatchDecoder("", partition, columns=("offset", "timestamp", "key", "value"), rows_max=rows_max)

    def decode(
        self, records: bytes | bytearray | memoryview, *, offset_start: int = 0, offset_end: int = OFFSET_END_MAX
    ) -> Iterator[pa.RecordBatch]:
        """The records with offset_start <= offset < offset_end, as Arrow batches of at most `rows_max` rows.

        Raises PeerError on bytes that are no record batches, a wrong CRC-32C or bad compressed data.
        """
        for batch in self._records.decode(records, offset_start=offset_start, offset_end=offset_end):
            rows: list[Row] = [row_of(key.as_py(), value.as_py()) for key, value in zip(batch["key"], batch["value"], strict=True)]
            yield pa.RecordBatch.from_arrays([self._column(name, batch, rows) for name in self.schema.names], schema=self.schema)

    def _column(self, name: str, batch: pa.RecordBatch, rows: list[Row]) -> pa.Array:
        if name in ("offset", "timestamp"):
            return batch[name]
        if name == "partition":
            return pa.repeat(pa.scalar(self._partition, pa.int32()), len(rows))
        return pa.array([row.get(name) for row in rows], GROUP_RECORD_TYPES[name])
