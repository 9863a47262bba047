"""Records of the offsets topic as Arrow columns."""

import datetime
import json
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from ottla.columnar import GROUP_RECORD_TYPES, GroupRecordDecoder
from ottla.groups.log.arrow import kernels
from ottla.groups.log.arrow.decoder import row_of
from ottla.groups.log.arrow.kernels import _is_utf8, _topic_id
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.protocol.arrow.batches import OK, scan, slices
from ottla.protocol.arrow.record_kernels import ENDLESS, FULL, ROWS
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.primitives import Writer

NOW_MS = 1_700_000_000_000
NOW = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
SUBSCRIPTION = Writer().int16(0).int32(1).string("flights").int32(-1).to_bytes()
ASSIGNMENT = Writer().int16(0).int32(1).string("flights").int32(2).int32(0).int32(4).int32(-1).to_bytes()
COMMIT = OffsetRecord(group_id="größe", topic="flights", partition=4, value=OffsetValue(77, 3, "méta", NOW_MS, topic_id=b"i" * 16))
EXPIRING = OffsetRecord(group_id="g", topic="t", partition=0, value=OffsetValue(5, -1, "", NOW_MS, expire_timestamp_ms=NOW_MS))

COMMIT_KERNELS, GROUP, UNKNOWN = b"\0\x01\0\x01g\0\x01t\0\0\0\x01", b"\0\x02\0\x01g", b"\0\x63\0\x01g"


def _generation(protocol_type: str, subscription: bytes, assignment: bytes) -> GroupMetadataRecord:
    member = MemberValue(
        member_id="m-1",
        instance_id=None,
        client_id="c",
        client_host="/host",
        rebalance_timeout_ms=1,
        session_timeout_ms=2,
        subscription=subscription,
        assignment=assignment,
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp_ms=NOW_MS,
        members=(member,),
    )
    return GroupMetadataRecord(group_id="gm", value=value)


def _batch(*pairs: tuple[bytes | None, bytes | None], first: int = 0, **options) -> bytearray:
    records = [Record(first + number, NOW_MS, key, value) for number, (key, value) in enumerate(pairs)]
    return encode_batch(records, base_offset=first, **options)


def _pair(record) -> tuple[bytes, bytes | None]:
    return encode_key(record), encode_value(record)


def _rows(buffer: bytes | bytearray, **options) -> list[dict[str, object]]:
    """The rows without their nulls."""
    decoder = GroupRecordDecoder(9, **options)
    batches = list(decoder.decode(buffer))
    for batch in batches:
        batch.validate(full=True)
    rows = pa.Table.from_batches(batches, schema=decoder.schema).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_a_commit():
    (row,) = _rows(_batch(_pair(COMMIT)))
    assert row == {
        "partition": 9,
        "offset": 0,
        "timestamp": NOW,
        "record_type": 1,
        "is_known": True,
        "is_tombstone": False,
        "group": "größe",
        "topic": "flights",
        "topic_partition": 4,
        "committed_offset": 77,
        "leader_epoch": 3,
        "metadata": "méta",
        "commit_timestamp": NOW,
        "topic_id": "aWlpaWlpaWlpaWlpaWlpaQ",
        "value_version": 4,
    }


def test_a_commit_that_expires_and_a_tombstone():
    old, gone = _rows(_batch(_pair(EXPIRING), (encode_key(COMMIT), None)))
    assert (old["expire_timestamp"], old["leader_epoch"], old["value_version"], "topic_id" in old) == (NOW, -1, 1, False)
    assert gone == {
        "partition": 9,
        "offset": 1,
        "timestamp": NOW,
        "record_type": 1,
        "is_known": True,
        "is_tombstone": True,
        "group": "größe",
        "topic": "flights",
        "topic_partition": 4,
    }


def test_a_generation_with_what_consumers_embed():
    columns = ("group", "protocol_type", "generation", "protocol", "leader", "state_timestamp", "members", "is_known", "topic")
    consumer, garbled, connect = _rows(
        _batch(
            *(
                _pair(_generation(*each))
                for each in (("consumer", SUBSCRIPTION, ASSIGNMENT), ("consumer", b"?", b""), ("connect", b"", b""))
            )
        ),
        columns=columns,
    )
    member = {
        "member_id": "m-1",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/host",
        "rebalance_timeout": 1,
        "session_timeout": 2,
        "subscribed_topics": ["flights"],
        "owned_partitions": [],
        "assignment": [("flights", [0, 4])],
    }
    assert consumer == {
        "group": "gm",
        "protocol_type": "consumer",
        "generation": 3,
        "protocol": "range",
        "leader": "m-1",
        "state_timestamp": NOW,
        "members": [member],
        "is_known": True,
    }
    assert garbled["members"] == [member | {"subscribed_topics": None, "owned_partitions": None, "assignment": []}]
    assert connect["members"] == [member | {"subscribed_topics": None, "owned_partitions": None, "assignment": None}]


def test_other_known_types_are_json_in_kafka_s_words():
    (row,) = _rows(_batch((b"\0\x03\0\x01g", b"\0\0\0\0\0\x07\0")), columns=("group", "record_type", "is_known", "record"))
    assert json.loads(row.pop("record")) == {
        "key": {"type": "3", "data": {"groupId": "g"}},
        "value": {"version": "0", "data": {"epoch": 7}},
    }
    assert row == {"group": "g", "record_type": 3, "is_known": True}


def test_what_is_not_known_or_cannot_be_read_is_a_row():
    commit_key, group_key = b"\0\x01\0\x01g\0\x01t\0\0\0\x01", b"\0\x02\0\x01g"
    pairs = [
        (None, None),
        (b"", b"x"),
        (b"\0\x63\0\x01g", b"\0\0"),  # type 99
        (b"\xff\xff\0\x01g", None),  # type -1
        (commit_key, b"\0\x05"),  # version 5
        (commit_key, b"\0\x04\0"),  # cut off
        (b"\0\x01\0\x01\xff\0\x01t\0\0\0\x01", None),  # a group that is no text
        (group_key, b"\0\x09"),
        (b"\0\x02\0\x01\xff", None),
    ]
    names = ("record_type", "is_known", "is_tombstone", "group", "topic", "topic_partition", "value_version")
    of_commit = {"group": "g", "topic": "t", "topic_partition": 1}
    assert _rows(_batch(*pairs), columns=names) == [
        {"is_known": False, "is_tombstone": True},
        {"is_known": False, "is_tombstone": False},
        {"record_type": 99, "is_known": False, "is_tombstone": False},
        {"record_type": -1, "is_known": False, "is_tombstone": True},
        {"record_type": 1, "is_known": False, "is_tombstone": False, **of_commit, "value_version": 5},
        {"record_type": 1, "is_known": False, "is_tombstone": False, **of_commit, "value_version": 4},
        {"record_type": 1, "is_known": False, "is_tombstone": True},
        {"record_type": 2, "is_known": False, "is_tombstone": False, "group": "g", "value_version": 9},
        {"record_type": 2, "is_known": False, "is_tombstone": True},
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_rows_keep_their_order_over_many_batches(codec: Codec):
    other = (b"\0\x03\0\x01g", b"\0\0\0\0\0\x07\0")
    buffer = b"".join(_batch(_pair(COMMIT), other, _pair(EXPIRING), first=3 * number, codec=codec) for number in range(100))
    decoder = GroupRecordDecoder(0, columns=("offset", "record_type", "is_known", "record", "metadata"), rows_max=70)
    batches = list(decoder.decode(scan(buffer), offset_start=10, offset_end=290))
    assert all(batch.num_rows <= 70 for batch in batches)
    rows = pa.Table.from_batches(batches).to_pylist()
    assert [row["offset"] for row in rows] == list(range(10, 290))
    assert {(row["offset"] % 3, row["record_type"], row["is_known"], row["record"] is None, row["metadata"]) for row in rows} == {
        (0, 1, True, True, "méta"),
        (1, 3, True, False, None),
        (2, 1, True, True, ""),
    }


def test_columns_and_bad_bytes():
    assert GroupRecordDecoder(0).schema.names == list(GROUP_RECORD_TYPES)
    with pytest.raises(ValueError, match="unknown column grup; there are partition, offset"):
        GroupRecordDecoder(0, columns=("grup",))
    buffer = _batch(_pair(COMMIT))
    buffer[-1] ^= 1
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 0"):
        _rows(buffer)


def test_commits_of_an_aborted_transaction_are_left_out():
    aborted = _batch(_pair(COMMIT), is_transactional=True, producer_id=4)
    decoder = GroupRecordDecoder(0, columns=("offset",))
    found = decoder.decode(aborted + _batch(_pair(COMMIT), first=1), aborted=[(4, 0)])
    assert [batch["offset"].to_pylist() for batch in found] == [[1]]


def _value(state_timestamp_ms: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="connect", generation=-1, protocol=None, leader=None, current_state_timestamp_ms=state_timestamp_ms, members=()
    )


@pytest.mark.parametrize(("time_ms", "time_us"), [(-1, None), (2**63 - 1, None), (-(2**63), None), (5, 5000)])
def test_a_time_that_is_not_there_or_does_not_fit_is_none(time_ms: int, time_us: int | None):
    record = GroupMetadataRecord(group_id="g", value=_value(time_ms))
    row = row_of(encode_key(record), encode_value(record))
    assert row["state_timestamp"] == time_us
    assert (row["is_known"], row["protocol"], row["members"]) == (True, None, [])


def test_a_tombstone_has_nothing_but_its_key():
    assert row_of(b"\0\x02\0\x01g", None) == {"is_known": True}
    assert json.loads(row_of(b"\0\x03\0\x01g", None)["record"]) == {"key": {"type": "3", "data": {"groupId": "g"}}, "value": None}


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"\0", None), (b"\0\x02", None), (b"\0\x02\0\x01g", b""), (b"\0\x03\0\x01g", b"\0\x09"), (b"\0\x63", None)],
)
def test_what_cannot_be_read_is_not_known(key: bytes | None, value: bytes | None):
    assert row_of(key, value) == {"is_known": False}


def _decode(keys: list[bytes | None], rows_max: int, rest: np.ndarray | None = None) -> tuple[int, np.ndarray]:
    out, state = np.zeros(kernels.OUT_WORDS, np.int64), np.zeros(kernels.STATE_WORDS, np.int64)
    for column in (kernels.GROUP, kernels.TOPIC, kernels.METADATA, kernels.TOPIC_ID):
        out[column + 3] = ENDLESS
    out[kernels.ROWS_MAX] = rows_max
    out[kernels.REST] = 0 if rest is None else rest.ctypes.data
    batch = encode_batch([Record(number, 0, key, None) for number, key in enumerate(keys)])
    (part,) = slices(scan(batch), (0, 100))
    work = (part.source_at, part.table.ctypes.data, part.tasks.ctypes.data, 0, 1)
    return int(kernels.decode(*work, 0, 100, out.ctypes.data, state.ctypes.data)), state


def test_without_columns_rows_are_counted():
    status, state = _decode([COMMIT_KERNELS, GROUP, None, b"\0", UNKNOWN], 10)
    assert (status, int(state[ROWS]), int(state[kernels.REST_ROWS])) == (OK, 5, 0)


def test_rows_end_where_there_is_no_room():
    status, state = _decode([COMMIT_KERNELS, COMMIT_KERNELS, COMMIT_KERNELS], 2)
    assert (status, int(state[ROWS])) == (FULL, 2)


def test_known_types_that_are_no_commits_are_left_over():
    rest = np.zeros((10, kernels.REST_COLUMNS), np.int64)
    status, state = _decode([COMMIT_KERNELS, GROUP, None, UNKNOWN, b"\0\x03", b"\xff\xff"], 10, rest)
    assert (status, int(state[kernels.REST_ROWS])) == (OK, 2)
    assert rest[:2, kernels.REST_ROW].tolist() == [1, 4]
    assert rest[:2, [kernels.REST_KEY_LENGTH, kernels.REST_VALUE_LENGTH]].tolist() == [[5, -1], [2, -1]]


def is_utf8(data: bytes) -> bool:
    array = np.frombuffer(data + b"\x80" * 8, np.uint8)
    return bool(_is_utf8(array.ctypes.data, array.ctypes.data + len(data)))


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


EDGES = bytes([0, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF])


@pytest.mark.parametrize("prefix", [b"", b"12345678", b"1234567"])
def test_utf8_is_what_python_takes_for_it(prefix: bytes):
    for size in range(4):
        for tail in product(EDGES, repeat=size):
            data = prefix + bytes(tail)
            assert is_utf8(data) == is_text(data), data
    for lead in (0xF0, 0xF4, 0xF1, 0xF5):
        for tail in product(EDGES, repeat=3):
            data = prefix + bytes([lead, *tail])
            assert is_utf8(data) == is_text(data), data


ID = bytes(range(16))


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (b"\0", (0, True)),
        (b"\1\0\x10" + ID, (3, True)),
        (b"\2\0\x10" + ID + b"\0\x10" + ID, (21, True)),
        (b"\2\5\1x\0\x10" + ID, (6, True)),
        (b"\1\5\1x", (0, True)),
        (b"\2\0\3abc\0\x10" + ID, (8, True)),
        (b"\2\0\x10" + ID + b"\0\3abc", (0, False)),
        (b"\1\0\3abc", (0, False)),
        (b"\1\0\x10" + ID[:15], (0, False)),
        (b"\2\5\1x", (0, False)),
        (b"", (0, False)),
        (b"\xff\xff\xff\xff\xff\1", (0, False)),
    ],
)
def test_topic_ids_among_tagged_fields(fields: bytes, found: tuple[int, bool]):
    array = np.frombuffer(fields + b"\0" * 8, np.uint8)
    start = array.ctypes.data
    address, is_sound = _topic_id(start, start + len(fields))
    assert (address - start if address and is_sound else 0, bool(is_sound)) == found
