"""Records of the offsets topic (`__consumer_offsets`) to Arrow: one row for every record, typed columns instead of bytes.

It decides the columns, and that nothing is dropped: a record of an unknown type or version, or one that cannot be read, is a row with
`is_known` false. It keeps no state of groups, and does not interpret records.
Commits are decoded by a kernel; other records, which are rare, as rows of plain values by the codec: what cannot be read leaves its
columns out.
"""

import ctypes
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.groups.log.arrow import kernels
from ottla.groups.log.records import GroupMetadataRecord, decode
from ottla.protocol.arrow.decoder import COLUMN_TYPES, ROWS_MAX, Columns, Decoder, Numbers, Strings, repeated, schema_of
from ottla.protocol.arrow.record_kernels import BINARY_SPACE, BINARY_WORDS, ENDLESS
from ottla.protocol.coordinator_records import GROUP_METADATA, GroupMetadataValue, MemberValue, decode_offsets_record, offsets_record_json
from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import UnknownRecord
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics, parse_subscription
from ottla.protocol.wire.primitives import Reader

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
        "owned_partitions": pa.map_(pa.string(), pa.list_(pa.int32())),
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


_NUMBER_WORDS = {
    "offset": kernels.OFFSET,
    "timestamp": kernels.TIMESTAMP,
    "record_type": kernels.RECORD_TYPE,
    "topic_partition": kernels.TOPIC_PARTITION,
    "committed_offset": kernels.COMMITTED_OFFSET,
    "leader_epoch": kernels.LEADER_EPOCH,
    "commit_timestamp": kernels.COMMIT_TIMESTAMP,
    "expire_timestamp": kernels.EXPIRE_TIMESTAMP,
    "value_version": kernels.VALUE_VERSION,
    "is_known": kernels.IS_KNOWN,
    "is_tombstone": kernels.IS_TOMBSTONE,
}
_STRING_WORDS = {"group": kernels.GROUP, "topic": kernels.TOPIC, "metadata": kernels.METADATA, "topic_id": kernels.TOPIC_ID}
_PLAIN_COLUMNS = ("protocol_type", "generation", "protocol", "leader", "state_timestamp", "members", "record")
"""Columns of the plain decoder, and for records that are no commits whether they are known."""


class GroupRecordDecoder(Decoder):
    """Decodes a partition of the offsets topic; commits of a transaction count when that does.

    `columns`: names from GROUP_RECORD_TYPES, in this order. The fields of a record's key are in `group`, `topic` and `topic_partition` even
    when its value cannot be read.
    """

    def __init__(self, partition: int, *, columns: Sequence[str] = tuple(GROUP_RECORD_TYPES), rows_max: int = ROWS_MAX) -> None:
        super().__init__(kernels.decode, _Columns(schema_of(columns, GROUP_RECORD_TYPES), rows_max, partition))


class _Columns(Columns):
    def __init__(self, schema: pa.Schema, rows_max: int, partition: int) -> None:
        # The records that are left to the plain decoder are found by their addresses in the slice.
        has_rest = not {"is_known", *_PLAIN_COLUMNS}.isdisjoint(schema.names)
        super().__init__(schema, rows_max, (kernels.OUT_WORDS, kernels.STATE_WORDS), _STRING_WORDS, is_of_one_slice=has_rest)
        self._partitions = repeated(partition, "partition", rows_max)
        self._numbers: dict[str, Numbers] = {}
        self._strings: dict[str, Strings] = {}
        self._rest = np.empty((rows_max if has_rest else 0, kernels.REST_COLUMNS), np.int64)

    def _make(self, rows_max: int, capacities: Mapping[str, int]) -> None:
        out = self.out
        out[:] = 0
        out[kernels.ROWS_MAX] = rows_max
        for name, word in _STRING_WORDS.items():
            out[word + BINARY_SPACE] = ENDLESS
            if name in capacities:
                # Of an id more comes out than went in.
                self._strings[name] = Strings(pa.string(), rows_max, capacities[name] + kernels.TOPIC_ID_CHARS)
                out[word : word + BINARY_WORDS] = self._strings[name].words
        for name, word in _NUMBER_WORDS.items():
            if name in self.schema.names:
                self._numbers[name] = Numbers(GROUP_RECORD_TYPES[name], rows_max, has_nulls=True)
                out[word : word + 2] = (self._numbers[name].address, self._numbers[name].bits)
        if self.is_of_one_slice:
            out[kernels.REST] = self._rest.ctypes.data

    def take(self, rows: int, *, was_full: bool) -> pa.RecordBatch:
        filled = self.state[kernels.FILLED :].tolist()
        was_short = was_full and rows < self.out[kernels.ROWS_MAX]
        plain = self._plain_columns(rows)
        arrays = []
        for name in self.schema.names:
            if name in self.capacities:
                word = _STRING_WORDS[name]
                self.capacities[name].learn(filled[word + 1], was_full=was_short)
                arrays.append(self._strings[name].array(rows, filled[word + 1], filled[word]))
            elif name in self._numbers:
                arrays.append(self._numbers[name].array(rows, filled[_NUMBER_WORDS[name]]))
            else:
                arrays.append(self._partitions[:rows] if name == "partition" else plain[name])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _plain_columns(self, rows: int) -> dict[str, pa.Array]:
        """The columns of the records that are no commits, which are few; `is_known` is set for those of them that are known."""
        wanted = [name for name in _PLAIN_COLUMNS if name in self.schema.names]
        rest = self._rest[: int(self.state[kernels.REST_ROWS])].tolist()
        if not rest:
            return {name: pa.nulls(rows, GROUP_RECORD_TYPES[name]) for name in wanted}
        found = [row_of(_bytes_at(*place[1:3]), _bytes_at(*place[3:])) for place in rest]
        if "is_known" in self._numbers:
            self._numbers["is_known"].set_bits([place[0] for place, row in zip(rest, found, strict=True) if row["is_known"]])
        indices = np.full(rows, -1)
        indices[[place[0] for place in rest]] = np.arange(len(rest))
        places = pa.array(indices, mask=indices < 0)
        return {name: pa.array([row.get(name) for row in found], GROUP_RECORD_TYPES[name]).take(places) for name in wanted}


def _bytes_at(address: int, length: int) -> bytes | None:
    """The bytes at an address that a kernel found, in the current slice."""
    return None if length < 0 else ctypes.string_at(address, length)


Row = dict[str, Any]
NO_TIME_MS = -1
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def row_of(key: bytes | None, value: bytes | None) -> Row:
    """The columns of a record that is no commit: `is_known`, and those that it has of a generation's or `record`."""
    try:
        return {"is_known": False} if key is None else _known(key, value)
    except PeerError:
        return {"is_known": False}


def _known(key: bytes, value: bytes | None) -> Row:
    if Reader(key).int16() != GROUP_METADATA:
        return _json(key, value)
    record = decode(key, value)
    assert isinstance(record, GroupMetadataRecord), "the type of its key shows it"
    return {"is_known": True} if record.value is None else {"is_known": True, **_generation(record.value)}


def _generation(value: GroupMetadataValue) -> Row:
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_timestamp": None if value.current_state_timestamp_ms == NO_TIME_MS else _time_us(value.current_state_timestamp_ms),
        "members": [_member(member, is_consumer) for member in value.members],
    }


def _member(member: MemberValue, is_consumer: bool) -> Row:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout_ms,
        "session_timeout": member.session_timeout_ms,
        "subscribed_topics": _or_none(parse_subscribed_topics, member.subscription) if is_consumer else None,
        "owned_partitions": _or_none(_owned, member.subscription) if is_consumer else None,
        "assignment": _or_none(_assignment, member.assignment) if is_consumer else None,
    }


def _json(key: bytes, value: bytes | None) -> Row:
    record = decode_offsets_record(key, value)
    if isinstance(record, UnknownRecord):
        return {"is_known": False}
    return {"is_known": True, "record": json.dumps(offsets_record_json(record), ensure_ascii=False)}


def _owned(data: bytes) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in parse_subscription(data).owned.items()]


def _assignment(data: bytes) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in parse_assignment(data).items()]


def _or_none(parse: Callable[[bytes], Iterable[Any]], data: bytes) -> list[Any] | None:
    """The consumer's own data in the record; None where the bytes are not what a consumer would send."""
    try:
        return list(parse(data))
    except PeerError:
        return None


def _time_us(time_ms: int) -> int | None:
    """Microseconds since 1970; None where 64 bits do not hold them."""
    return time_ms * 1000 if -_TIMESTAMP_MS_MAX <= time_ms <= _TIMESTAMP_MS_MAX else None
