"""The columnar lane against the plain one: the same bytes out, the same map, the same numbers, on any batches, sound or damaged."""

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.columnar import cleaning
from ottla.columnar.cleaning import ColumnarLane
from ottla.core.cleaning.lane import Chunk, Indexed, Lane, Tombstones, Verdict
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.core.cleaning.plain import PlainLane
from ottla.core.errors import PeerError
from ottla.core.model import Header, Record
from ottla.core.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    decode_batch,
    empty_batch,
    encode_batch,
    read_header,
    seal,
    split_batches,
)
from ottla.core.records.compression import Codec

NOW_MS = 1_700_000_000_000
# A lane keeps scratch memory from call to call, so one lane for all examples is the harder test.
COLUMNAR = ColumnarLane()
KEYS = st.none() | st.binary(max_size=3) | st.binary(min_size=50, max_size=140)
PARTS = st.tuples(
    st.integers(1, 50),  # step to the next offset: earlier cleanings leave gaps
    st.integers(-(10**10), 10**10),  # time against now, in ms
    KEYS,
    st.none() | st.binary(max_size=60),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=2),
)
SHAPES = st.fixed_dictionaries(
    {
        "codec": st.sampled_from(list(Codec)),
        "is_log_append_time": st.booleans(),
        "is_transactional": st.booleans(),
        "is_control": st.booleans(),
        "delete_horizon_ms": st.none() | st.integers(NOW_MS - 10, NOW_MS + 10),
        "producer_id": st.integers(-1, 3),
    }
)
BATCHES = st.lists(st.tuples(st.lists(PARTS, min_size=1, max_size=12), SHAPES, st.integers(0, 5), st.booleans()), max_size=8)


def encode(batches: list[tuple], base_offset: int) -> bytes:
    buffer, offset = bytearray(), base_offset
    for parts, shape, trailing, is_emptied in batches:
        records = []
        for step, time, key, value, headers in parts:
            offset += step
            records.append(Record(offset, NOW_MS + time, key, value, tuple(Header(*header) for header in headers)))
        offset += trailing
        batch = encode_batch(records, base_offset=records[0].offset - parts[0][0] + 1, last_offset=offset, leader_epoch=7, **shape)
        buffer += empty_batch(read_header(batch)) if is_emptied else batch
    return bytes(buffer)


def index(lane: Lane, buffer: bytes, slots: int, skipped: set[int], from_offset: int) -> tuple[Indexed, bytes, int, int]:
    offset_map = OffsetMap(slots * SLOT_BYTES)
    indexed = lane.survey(buffer, array("q")).index(offset_map, skipped=skipped, from_offset=from_offset)
    return indexed, bytes(offset_map.memory), offset_map.entries, offset_map.latest_offset


def surveyed(chunk: Chunk) -> tuple[int, int, list[int]]:
    return chunk.size_bytes, chunk.next_batch_bytes, list(chunk.special)


def same_survey(buffer: bytes, marked: "array[int]") -> tuple[Chunk, Chunk]:
    plain, columnar = PlainLane().survey(buffer, marked), COLUMNAR.survey(buffer, marked)
    assert surveyed(columnar) == surveyed(plain)
    return plain, columnar


def same_filter(plain: Chunk, columnar: Chunk, offset_map: OffsetMap, verdicts: dict[int, Verdict]) -> bytes:
    memory = bytes(offset_map.memory)
    expected = plain.filter(offset_map, verdicts, Tombstones(NOW_MS, 1000))
    found = columnar.filter(offset_map, verdicts, Tombstones(NOW_MS, 1000))
    assert bytes(found.data) == bytes(expected.data)
    assert found[1:] == expected[1:]
    assert bytes(offset_map.memory) == memory, "the filter pass only reads the map"
    return bytes(found.data)


@pytest.fixture(params=[cleaning.GROUP_BYTES_MAX, 300])
def group_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Groups as they are, and so small that batches fall into several."""
    monkeypatch.setattr(cleaning, "GROUP_BYTES_MAX", request.param)
    return int(request.param)


@pytest.mark.parametrize("group", [cleaning.GROUP_BYTES_MAX, 300])
@settings(max_examples=100, deadline=None)
@given(BATCHES, st.integers(0, 2**60), st.integers(2, 60), st.data())
def test_equal_on_any_sound_batches(group: int, batches: list, base_offset: int, slots: int, data: st.DataObject):
    buffer = encode(batches, base_offset)
    positions = [at for at, _ in split_batches(buffer)]
    skipped = set(data.draw(st.lists(st.sampled_from(positions)))) if positions else set()
    last_offsets = sorted({header.last_offset for _, header in split_batches(buffer)})
    first_dirty = data.draw(st.sampled_from([0, base_offset, *last_offsets]))
    marked = array("q", sorted(data.draw(st.sets(st.sampled_from(last_offsets)))) if last_offsets else [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaning, "GROUP_BYTES_MAX", group)
        expected = index(PlainLane(), buffer, slots, skipped, first_dirty)
        assert index(COLUMNAR, buffer, slots, skipped, first_dirty) == expected
        buffer += buffer[: data.draw(st.integers(0, 70))]
        plain, columnar = same_survey(buffer, marked)
        offset_map = OffsetMap(slots * SLOT_BYTES)
        plain.index(offset_map, skipped=skipped, from_offset=first_dirty)
        verdicts = {at: data.draw(st.sampled_from(list(Verdict))) for at in plain.special}
        for at, header in split_batches(buffer):
            if verdicts.get(at) is Verdict.KEEP_UNTIL_HORIZON and not header.record_count:
                verdicts[at] = Verdict.KEEP  # an empty batch has nothing that a horizon could be for
        same_filter(plain, columnar, offset_map, verdicts)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("per_batch", [1, 3, 2000])
def test_equal_on_large_logs_and_what_stays_is_sound(codec: Codec, per_batch: int, group_bytes: int):
    """The latest record of each key stays, in batches that read well; cleaning again changes nothing."""
    dice = random.Random(per_batch)
    latest: dict[bytes | None, int] = {}
    buffer, offset = bytearray(), 2**33
    while offset < 2**33 + 6000:
        records = []
        for _ in range(per_batch):
            key = b"key-%d" % dice.randrange(3000)
            records.append(Record(offset, NOW_MS + dice.randrange(100), key, dice.randbytes(dice.randrange(200))))
            latest[key] = offset
            offset += 1
        buffer += encode_batch(records, base_offset=records[0].offset, codec=codec)
    plain, columnar = same_survey(bytes(buffer), array("q"))
    maps = [OffsetMap(4000 * SLOT_BYTES), OffsetMap(4000 * SLOT_BYTES)]
    counts = [chunk.index(map_, skipped=frozenset(), from_offset=0) for chunk, map_ in zip((plain, columnar), maps, strict=True)]
    assert counts[0] == counts[1]
    states = [(bytes(map_.memory), map_.entries, map_.latest_offset) for map_ in maps]
    assert states[0] == states[1]
    data = same_filter(plain, columnar, maps[1], {})
    assert {record.key: record.offset for at, _ in split_batches(data) for record in decode_batch(data, at)} == latest
    assert same_filter(*same_survey(data, array("q")), maps[1], {}) == data


@pytest.mark.parametrize("seed", range(4))
def test_equal_on_damaged_records(seed: int):
    """Damage behind a right checksum reaches the kernels: both lanes refuse, or both give the same."""
    dice = random.Random(seed)
    refused = 0
    for _ in range(1000):
        records = [
            Record(i, NOW_MS + i, dice.choice([None, dice.randbytes(dice.randrange(9))]), dice.choice([None, dice.randbytes(70)]))
            for i in range(dice.randrange(1, 8))
        ]
        records[0] = records[0]._replace(headers=(Header("trace", b"12"),))
        batch = encode_batch(records, codec=dice.choice([Codec.NONE, Codec.NONE, *Codec]))
        for _ in range(dice.randrange(1, 4)):
            batch[dice.randrange(21, len(batch))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        seal(batch)
        offset_map = OffsetMap(50 * SLOT_BYTES)
        offset_map.put(b"", dice.randrange(8))
        offset_map.latest_offset = dice.randrange(8)
        verdict = dice.choice([Verdict.FILTER, Verdict.FILTER, Verdict.FILTER_KEEP, Verdict.KEEP, Verdict.EMPTY])
        outcomes = []
        for lane in (PlainLane(), COLUMNAR):
            try:
                chunk = lane.survey(bytes(batch), array("q"))
                found = chunk.filter(offset_map, {0: verdict}, Tombstones(NOW_MS, 1000))
                outcomes.append((surveyed(chunk), bytes(found.data), *map(list, found[1:4]), *found[4:]))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]
        refused += outcomes[0] is None
    assert 100 < refused < 1000


def test_any_bytes_at_all_are_cleaned_or_refused_alike():
    dice = random.Random(11)
    sound = encode([([(1, 0, b"k", b"v" * 50, [])] * 5, {"is_control": False}, 0, False)], 10)
    for _ in range(2000):
        buffer = bytearray(sound * dice.randrange(1, 4))
        for _ in range(dice.randrange(1, 4)):
            # Not only anywhere: a checksum hides everything else.
            buffer[dice.choice([dice.randrange(len(buffer)), dice.randrange(17)])] = dice.randrange(256)
        outcomes = []
        for lane in (PlainLane(), COLUMNAR):
            try:
                outcomes.append(surveyed(lane.survey(bytes(buffer), array("q"))))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]


def test_what_the_attributes_say_is_special():
    batches = [encode_batch([Record(at, 0, b"k", b"v")], base_offset=at, is_transactional=at == 5) for at in (5, 6)]
    assert read_header(batches[0]).attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
    _, columnar = same_survey(b"".join(batches), array("q", [3, 6]))
    assert list(columnar.special) == [0, len(batches[0])]
