"""The reference backend: which records stay, and the bytes of what stays."""

from array import array
from collections.abc import Mapping

import pytest

from ottla.core.cleaning.backend import BatchRetention, Filtered, Tombstones
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.core.cleaning.reference import ReferenceBackend, ReferenceChunk
from ottla.core.errors import PeerError
from ottla.core.model import Header, Record
from ottla.core.records.batch import decode_batch, empty_batch, encode_batch, read_header, seal, split_batches
from ottla.core.records.compression import Codec

NOW_MS = 1_000_000
TIMES = Tombstones(now_ms=NOW_MS, delete_retention_ms=500)
HORIZON_MS = 1_000_500


def scan(*batches: bytes | bytearray, marked: tuple[int, ...] = ()) -> ReferenceChunk:
    return ReferenceBackend().scan(b"".join(batches), array("q", marked))


def map_of(latest_offset: int, **offsets: int) -> OffsetMap:
    offset_map = OffsetMap(SLOT_BYTES * 100)
    for key, offset in offsets.items():
        offset_map.put(key.encode(), offset)
    offset_map.latest_offset = latest_offset
    return offset_map


def record(offset: int, key: str | None, value: str | None = "v", timestamp_ms: int | None = None) -> Record:
    def as_bytes(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    time_ms = 1000 + offset if timestamp_ms is None else timestamp_ms
    return Record(offset, time_ms, as_bytes(key), as_bytes(value), (Header("h", b"\x00"),))


def batch(*records: Record, base_offset: int | None = None, **options: object) -> bytearray:
    return encode_batch(records, base_offset=records[0].offset if base_offset is None else base_offset, **options)  # type: ignore[arg-type]


def filtered(data: bytes | bytearray, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention] | None = None) -> Filtered:
    return scan(data).filter(offset_map, retentions or {}, TIMES)


FOUR = (record(4, "a"), record(5, "b"), record(6, "a"), record(7, None))


def test_a_scan_finds_whole_batches_and_the_size_of_the_next() -> None:
    one, two = batch(*FOUR), batch(record(8, "c"))
    assert (scan(one, two).size_bytes, scan(one, two).next_batch_bytes) == (len(one) + len(two), 0)
    assert (scan(one, two[:61]).size_bytes, scan(one, two[:61]).next_batch_bytes) == (len(one), len(two))
    assert (scan(one, two[:60]).size_bytes, scan(one, two[:60]).next_batch_bytes) == (len(one), 0)
    assert (scan(one[:-1]).size_bytes, scan(one[:-1]).next_batch_bytes) == (0, len(one))
    assert (scan().size_bytes, scan().next_batch_bytes) == (0, 0)


def test_special_are_transactional_and_control_batches_and_those_that_end_at_a_marked_offset() -> None:
    batches = [
        batch(*FOUR),
        batch(record(8, "c"), is_transactional=True),
        batch(record(9, "c"), is_control=True),
        batch(record(10, "c"), record(11, "d")),
        batch(record(12, "c")),
    ]
    at = [0, *(sum(map(len, batches[:number])) for number in range(1, 5))]
    assert scan(*batches).special == [at[1], at[2]]
    assert scan(*batches, marked=(3, 7, 10, 12)).special == [at[0], at[1], at[2], at[4]]


def test_damage_is_found_before_anything_is_done() -> None:
    data = batch(*FOUR)
    data[-1] ^= 1
    with pytest.raises(PeerError, match="checksum"):
        scan(data)


def test_the_index_holds_the_last_offset_of_each_key_and_how_far_it_came() -> None:
    offset_map = map_of(-1)
    assert scan(batch(*FOUR)).index(offset_map, skipped=set(), from_offset=5) == (4, False)
    assert [offset_map.get(key) for key in (b"a", b"b")] == [6, 5]
    assert (offset_map.entries, offset_map.latest_offset) == (2, 7)


def test_the_index_passes_over_what_is_reported_to_be_skipped() -> None:
    one, two, three = batch(*FOUR), batch(record(8, "a"), record(9, "c")), batch(record(10, "d"))
    offset_map = map_of(-1)
    assert scan(one, two, three).index(offset_map, skipped={len(one)}, from_offset=0) == (7, False)
    assert ([offset_map.get(key) for key in (b"a", b"b", b"c", b"d")], offset_map.latest_offset) == ([6, 5, -1, 10], 10)
    offset_map.clear()
    scan(one, two).index(offset_map, skipped={len(one)}, from_offset=0)
    assert offset_map.latest_offset == 9


def test_batches_below_the_first_offset_do_not_count() -> None:
    offset_map = map_of(-1)
    scan(batch(*FOUR)).index(offset_map, skipped=set(), from_offset=8)
    assert (offset_map.entries, offset_map.latest_offset) == (0, -1)


def test_a_full_map_ends_the_index_inside_a_batch() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 3)
    records = [record(0, "a"), record(1, "b"), record(2, None), record(3, "a"), record(4, "c")]
    assert scan(batch(*records)).index(offset_map, skipped=set(), from_offset=0) == (3, True)
    assert offset_map.latest_offset == 1


def test_a_batch_whose_records_all_stay_is_copied() -> None:
    for codec in Codec:
        data = batch(*FOUR[:3], codec=codec)
        assert filtered(data, map_of(7, b=5)) == (data, [6], [1006], [len(data)], 3, 3)


def test_a_batch_of_which_nothing_stays_goes() -> None:
    assert filtered(batch(*FOUR), map_of(9, a=8, b=9)) == (b"", [], [], [], 4, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_which_some_stay_is_rebuilt(codec: Codec) -> None:
    options = {"leader_epoch": 3, "producer_id": 7, "producer_epoch": 1, "base_sequence": 20, "codec": codec}
    data = batch(*FOUR, base_offset=2, last_offset=9, **options)
    result = filtered(data, map_of(9, a=6, b=5))
    kept = [FOUR[1], FOUR[2]]
    assert result.data == batch(*kept, base_offset=2, last_offset=9, **options)
    assert result[1:] == ([9], [1006], [len(result.data)], 4, 2)
    assert decode_batch(bytes(result.data)) == kept


def test_what_lies_above_the_map_stays_even_without_a_key() -> None:
    assert decode_batch(bytes(filtered(batch(*FOUR), map_of(5, a=5, b=5)).data)) == list(FOUR[1:])


def test_log_append_time_stays_the_time_of_all() -> None:
    result = filtered(batch(*FOUR, is_log_append_time=True), map_of(9, a=4, b=9))
    assert read_header(bytes(result.data)).max_timestamp_ms == 1007
    assert [each.timestamp_ms for each in decode_batch(bytes(result.data))] == [1007, 1007]


def test_a_tombstone_that_stays_gives_its_batch_a_horizon() -> None:
    data = batch(record(4, "a"), record(5, "b", None))
    result = filtered(data, map_of(9, a=4, b=5))
    assert result.data == batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=HORIZON_MS)
    assert decode_batch(bytes(result.data)) == decode_batch(data)


def test_a_horizon_stays_what_it_was() -> None:
    data = batch(record(4, "a"), record(5, "b", None), record(6, "c"), delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9)).data == data
    expected = batch(record(5, "b", None), record(6, "c"), base_offset=4, delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9, a=8)).data == expected
    without_tombstones = batch(record(4, "a"), record(6, "c"), delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9, b=8)).data == without_tombstones


@pytest.mark.parametrize(("horizon_ms", "left"), [(NOW_MS + 1, [4, 5]), (NOW_MS, [4]), (NOW_MS - 1, [4])])
def test_a_tombstone_goes_when_the_delete_horizon_is_reached(horizon_ms: int, left: list[int]) -> None:
    result = filtered(batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=horizon_ms), map_of(9, a=4, b=5))
    assert [found.offset for found in decode_batch(result.data)] == left


def test_at_the_horizon_tombstones_go() -> None:
    data = batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=NOW_MS)
    assert decode_batch(bytes(filtered(data, map_of(9)).data)) == [record(4, "a")]
    assert filtered(data, map_of(4)).data == data


def test_retentions_rule_over_records() -> None:
    data = batch(*FOUR, producer_id=3)
    gone = map_of(9, a=8, b=9)
    empty = empty_batch(read_header(data))
    result = filtered(data, gone, {0: BatchRetention.FILTER_KEEP})
    assert result == (empty, [7], [1007], [61], 4, 0)
    assert filtered(data, map_of(3), {0: BatchRetention.FILTER_KEEP}).data == data
    assert filtered(data, map_of(3), {0: BatchRetention.DROP}) == (b"", [], [], [], 0, 0)
    assert filtered(data, map_of(3), {0: BatchRetention.EMPTY}) == (empty, [7], [1007], [61], 0, 0)
    assert filtered(data, gone, {0: BatchRetention.KEEP}) == (data, [7], [1007], [len(data)], 0, 4)
    result = filtered(data, gone, {0: BatchRetention.KEEP_UNTIL_HORIZON})
    assert result.data == batch(*FOUR, producer_id=3, delete_horizon_ms=HORIZON_MS)


def test_an_empty_batch_goes_unless_reported_otherwise() -> None:
    empty = empty_batch(read_header(batch(*FOUR)))
    assert filtered(empty, map_of(0)).data == b""
    assert filtered(empty, map_of(0), {0: BatchRetention.FILTER_KEEP}).data == empty


def test_what_stays_is_reported_batch_by_batch() -> None:
    batches = [batch(*FOUR), batch(record(8, "c")), batch(record(9, "c"), record(10, "d", timestamp_ms=5000))]
    result = filtered(b"".join(batches), map_of(10, a=6, b=5, c=9, d=10), {len(batches[0]): BatchRetention.DROP})
    sizes = [header.size_bytes for _, header in split_batches(result.data)]
    assert result[1:] == ([7, 10], [1006, 5000], sizes, 6, 4)


def test_records_that_are_none_are_refused_by_both_passes() -> None:
    data = batch(*FOUR)
    data[61] ^= 0x55
    seal(data)
    with pytest.raises(PeerError):
        scan(data).index(map_of(-1), skipped=set(), from_offset=0)
    with pytest.raises(PeerError):
        filtered(data, map_of(-1))
