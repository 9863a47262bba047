"""Control records, and the records that they commit."""

import pytest

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, read_header
from ottla.protocol.records.control import CommittedRecords, ControlType, EndMarker, control_type, decode_control, decode_end_marker
from ottla.protocol.wire.primitives import Writer
from tests.support.kit.end_markers import encode_end_marker

DIRECTORY = bytes(range(16))
DIRECTORY_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def key(number: int) -> bytes:
    return Writer().int16(0).int16(number).to_bytes()


def voters(writer: Writer) -> bytes:
    writer.uvarint(2).int32(1).raw(DIRECTORY).uvarint(2).string("CONTROLLER").string("h").int16(-1).uvarint(0)
    return writer.int16(0).int16(1).uvarint(0).uvarint(0).uvarint(0).to_bytes()


@pytest.mark.parametrize(
    ("number", "name", "value", "data"),
    [
        (0, "ABORT", Writer().int16(0).int32(5).to_bytes(), {"version": 0, "coordinatorEpoch": 5}),
        (1, "COMMIT", Writer().int16(0).int32(6).to_bytes(), {"version": 0, "coordinatorEpoch": 6}),
        (
            2,
            "LEADER_CHANGE",
            Writer().int16(0).int32(1).uvarint(2).int32(1).uvarint(0).uvarint(1).uvarint(0).to_bytes(),
            {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": []},
        ),
        (
            2,
            "LEADER_CHANGE",
            Writer().int16(1).int32(1).uvarint(2).int32(1).raw(DIRECTORY).uvarint(0).uvarint(1).uvarint(0).to_bytes(),
            {"version": 1, "leaderId": 1, "voters": [{"voterId": 1, "voterDirectoryId": DIRECTORY_TEXT}], "grantingVoters": []},
        ),
        (3, "SNAPSHOT_HEADER", Writer().int16(0).int64(99).uvarint(0).to_bytes(), {"version": 0, "lastContainedLogTimestamp": 99}),
        (4, "SNAPSHOT_FOOTER", Writer().int16(0).uvarint(0).to_bytes(), {"version": 0}),
        (5, "KRAFT_VERSION", Writer().int16(0).int16(1).uvarint(0).to_bytes(), {"version": 0, "kRaftVersion": 1}),
        (
            6,
            "KRAFT_VOTERS",
            voters(Writer(flexible=True).int16(0)),
            {
                "version": 0,
                "voters": [
                    {
                        "voterId": 1,
                        "voterDirectoryId": DIRECTORY_TEXT,
                        "endpoints": [{"name": "CONTROLLER", "host": "h", "port": 65535}],
                        "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                    }
                ],
            },
        ),
        (77, "UNKNOWN", b"anything", {}),
    ],
    ids=["abort", "commit", "leader change", "leader change v1", "header", "footer", "version", "voters", "unknown"],
)
def test_each_type(number: int, name: str, value: bytes, data: dict[str, object]) -> None:
    record = decode_control(key(number), value)
    assert (record.control_type, record.name, record.data) == (number, name, data)


@pytest.mark.parametrize(
    ("key_bytes", "value"),
    [(None, b"x"), (key(0), None), (b"\x00", b""), (key(0), b""), (key(0), b"\x00\x00\x01"), (key(1), b"\xff\xff\0\0\0\1")],
)
def test_what_is_no_control_record_is_a_peer_error(key_bytes: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        decode_control(key_bytes, value)


def test_the_type_is_the_second_number_of_the_key() -> None:
    assert [control_type(key(number)) for number in range(8)] == [*ControlType, 7]
    assert control_type(key(1) + b"more") == ControlType.COMMIT
    for none in (None, b"", b"\0\0\0"):
        with pytest.raises(PeerError):
            control_type(none)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(7, 0, key, value)


def test_markers_are_kafkas_bytes() -> None:
    key, value = encode_end_marker(EndMarker(ControlType.COMMIT, 5))
    assert (key.hex(), value.hex()) == ("00000001", "000000000005")
    assert decode_end_marker(record(key, value)) == EndMarker(ControlType.COMMIT, 5)
    assert decode_end_marker(record(*encode_end_marker(EndMarker(ControlType.ABORT, 0)))) == EndMarker(ControlType.ABORT, 0)


def test_other_control_records_are_no_markers() -> None:
    assert decode_end_marker(record(bytes.fromhex("00000002"), b"")) is None


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"\0\0\0", b"\0" * 6), (b"\0\0\0\0", None), (b"\0\0\0\1", b"\0" * 5)])
def test_damaged_control_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(PeerError):
        decode_end_marker(record(key, value))


def batch(*offsets: int, producer_id: int = -1) -> bytes:
    records = [Record(offset, 0, b"k%d" % offset, b"v") for offset in offsets]
    return bytes(encode_batch(records, base_offset=offsets[0], producer_id=producer_id, is_transactional=producer_id >= 0))


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    record = Record(offset, 0, *encode_end_marker(EndMarker(kind, 0)))
    return bytes(encode_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True))


def offsets(reader: CommittedRecords, *batches: bytes) -> list[int]:
    return [record.offset for data in batches for record in reader.read(data, read_header(data))]


def test_records_of_a_transaction_count_when_it_commits() -> None:
    reader = CommittedRecords()
    log = [batch(0), batch(1, 2, producer_id=7), batch(3), marker(4, ControlType.COMMIT, 7), batch(5)]
    assert offsets(reader, *log) == [0, 3, 1, 2, 5]
    assert reader.pending_records == 0


def test_records_of_an_aborted_transaction_never_count() -> None:
    reader = CommittedRecords()
    log = [batch(1, producer_id=7), batch(2, producer_id=8), marker(3, ControlType.ABORT, 7), marker(4, ControlType.COMMIT, 8)]
    assert offsets(reader, *log) == [2]
    assert reader.aborted_records == 1


def test_a_transaction_without_an_end_is_pending() -> None:
    reader = CommittedRecords()
    assert offsets(reader, batch(1, 2, producer_id=7)) == []
    assert reader.pending_records == 2


def test_damaged_batches_are_counted() -> None:
    reader = CommittedRecords()
    data = bytearray(batch(1))
    data[-1] ^= 1
    assert offsets(reader, bytes(data), batch(2)) == [2]
    assert reader.damaged_batches == 1


def test_transactions_that_are_too_large_are_dropped() -> None:
    reader = CommittedRecords(pending_max=3)
    log = [batch(1, 2, producer_id=7), batch(3, 4, producer_id=8), marker(5, ControlType.COMMIT, 7), marker(6, ControlType.COMMIT, 8)]
    assert offsets(reader, *log) == [3, 4]
    assert (reader.dropped_records, reader.pending_records) == (2, 0)
