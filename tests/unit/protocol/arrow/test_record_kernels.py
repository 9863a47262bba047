"""The kernel of records alone: what it writes for known bytes, and the status it gives for bytes that cannot be."""

import numpy as np
import pytest

from ottla.protocol.arrow import record_kernels
from ottla.protocol.arrow.batches import scan, slices
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import HEADER_BYTES, encode_batch, seal

EVERYTHING = (0, 2**63 - 1)
ROOM = 1000
RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"), Header("empty", None))),
    Record(11, 1_700_000_000_005, None, b"", ()),
    Record(13, 1_699_999_999_000, b"", None, ()),
]


class Columns:
    """Room for a few rows, by address."""

    def __init__(self, rows_max: int = 16) -> None:
        self.out = np.zeros(record_kernels.OUT_WORDS, np.int64)
        self.state = np.zeros(record_kernels.STATE_WORDS, np.int64)
        self.binary = {}
        for word in (record_kernels.KEYS, record_kernels.VALUES):
            arrays = (np.zeros(rows_max + 1, np.int32), np.zeros(ROOM + record_kernels.SLACK_BYTES, np.uint8), np.zeros(2, np.uint8))
            self.binary[word] = arrays
            self.out[word : word + record_kernels.BINARY_WORDS] = (*(array.ctypes.data for array in arrays), ROOM)
        self.numbers = {word: np.zeros(rows_max, np.int64) for word in (record_kernels.OFFSETS, record_kernels.TIMESTAMPS)}
        self.spans = np.zeros((rows_max, record_kernels.HEADER_SPAN_WORDS), np.int64)
        for word, array in {**self.numbers, record_kernels.HEADER_SPANS: self.spans}.items():
            self.out[word] = array.ctypes.data
        self.out[record_kernels.ROWS_MAX] = rows_max

    def decode(self, buffer: bytes | bytearray, bounds: tuple[int, int] = EVERYTHING) -> int:
        (part,) = slices(scan(buffer), bounds)
        work = (part.source_at, part.table.ctypes.data, part.tasks.ctypes.data, int(part.is_checked), len(part.table))
        return int(record_kernels.decode(*work, *bounds, self.out.ctypes.data, self.state.ctypes.data))

    def texts(self, word: int) -> list[bytes]:
        offsets, data, _ = self.binary[word]
        rows = int(self.state[record_kernels.ROWS])
        return [data[offsets[row] : offsets[row + 1]].tobytes() for row in range(rows)]


def test_columns_of_known_records():
    columns = Columns()
    assert columns.decode(encode_batch(RECORDS, base_offset=10)) == record_kernels.OK
    assert columns.numbers[record_kernels.OFFSETS][:3].tolist() == [10, 11, 13]
    assert columns.numbers[record_kernels.TIMESTAMPS][:3].tolist() == [1_700_000_000_000_000, 1_700_000_000_005_000, 1_699_999_999_000_000]
    assert columns.texts(record_kernels.KEYS) == [b"key", b"", b""]
    assert columns.texts(record_kernels.VALUES) == [b"value", b"", b""]
    assert columns.binary[record_kernels.KEYS][2][0] == 0b11111101
    assert columns.binary[record_kernels.VALUES][2][0] == 0b11111011
    assert columns.spans[:3, 1].tolist() == [2, 0, 0]
    names = ("ROWS", "KEY_BYTES", "VALUE_BYTES", "KEY_NULLS", "VALUE_NULLS", "HEADERS", "HEADER_KEY_BYTES", "HEADER_VALUE_BYTES")
    assert [int(columns.state[getattr(record_kernels, name)]) for name in names] == [3, 3, 5, 1, 1, 2, 6, 1]


def test_it_goes_on_where_it_stopped():
    batch, columns, seen = encode_batch(RECORDS, base_offset=10), Columns(1), []
    for status in (record_kernels.FULL, record_kernels.FULL, record_kernels.OK):
        assert columns.decode(batch) == status
        seen.append(int(columns.numbers[record_kernels.OFFSETS][0]))
        columns.state[record_kernels.ROWS :] = 0
    assert seen == [10, 11, 13]


def test_it_stops_before_a_record_that_has_no_room():
    columns = Columns()
    columns.out[record_kernels.VALUES + record_kernels.BINARY_SPACE] = 4
    assert columns.decode(encode_batch(RECORDS, base_offset=10)) == record_kernels.FULL
    assert columns.state[record_kernels.ROWS] == 0


def test_offsets_outside_of_the_bounds_are_passed_over():
    columns = Columns()
    assert columns.decode(encode_batch(RECORDS, base_offset=10), (11, 13)) == record_kernels.OK
    assert columns.numbers[record_kernels.OFFSETS][:2].tolist() == [11, 0]


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 255, 256, 257, 900])
def test_strings_of_every_length_are_copied(length: int):
    columns, data = Columns(), bytes(number % 251 for number in range(length))
    assert columns.decode(encode_batch([Record(0, 0, data[:50], data), Record(1, 0, b"", b"last")])) == record_kernels.OK
    assert columns.texts(record_kernels.VALUES) == [data, b"last"]
    assert columns.texts(record_kernels.KEYS) == [data[:50], b""]


@pytest.mark.parametrize(
    ("section", "count", "status"),
    [
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, record_kernels.BAD_RECORD),  # one byte behind the headers of a record
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", 1, record_kernels.BYTES_LEFT_OVER),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, record_kernels.BAD_COUNT),
        (b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x00" * 7, 2, record_kernels.BAD_RECORD),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1, record_kernels.BAD_RECORD),  # a value of 63 bytes
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1, record_kernels.BAD_RECORD),  # a key of -2 bytes
        (b"\x0c\x00\x00\x01\x01\x01\x00", 1, record_kernels.BAD_RECORD),  # offset delta -1
        (b"\x0c\x00\x00\x08\x01\x01\x00", 1, record_kernels.BAD_RECORD),  # offset delta 4 after the last one
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, record_kernels.BAD_RECORD),  # -1 headers
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1, record_kernels.BAD_RECORD),  # 63 headers
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, record_kernels.BAD_RECORD),  # a header key that is null
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, record_kernels.BAD_RECORD),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00", 1, record_kernels.BAD_TIMESTAMP),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00", 1, record_kernels.BAD_RECORD),  # 65 bits
    ],
)
def test_records_that_cannot_be_are_refused(section: bytes, count: int, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[57:61] = count.to_bytes(4)
    batch[HEADER_BYTES:] = section
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    seal(batch)
    assert Columns().decode(batch) == status


@pytest.mark.parametrize("at", [27, 35])
@pytest.mark.parametrize("timestamp_ms", [-(2**63), 2**63 - 1, 2**63 // 1000 + 1])
def test_timestamps_beyond_microseconds_are_refused(at: int, timestamp_ms: int):
    batch = encode_batch(RECORDS, base_offset=10, is_log_append_time=at == 35)
    batch[at : at + 8] = timestamp_ms.to_bytes(8, signed=True)
    seal(batch)
    assert Columns().decode(batch) == record_kernels.BAD_TIMESTAMP


@pytest.mark.parametrize("is_control", [False, True])
@pytest.mark.parametrize("position", [21, 61, -1])
def test_a_changed_byte_is_found_by_the_checksum(position: int, is_control: bool):
    batch = encode_batch(RECORDS, base_offset=10, is_control=is_control)
    batch[position] ^= 0x40
    assert Columns().decode(batch) == record_kernels.BAD_CRC
