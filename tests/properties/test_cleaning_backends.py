"""The compiled backend against the plain one: the same bytes out, the same map, the same numbers, on any batches, sound or damaged."""

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.cleaner.backend import SLOT_BYTES, BatchRetention, Chunk, CleaningBackend, Indexed, OffsetMap, ReferenceBackend, Tombstones
from ottla.log.compiled import cleaning as compiled
from ottla.log.compiled.cleaning import CompiledBackend
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    decode_batch,
    empty_batch,
    encode_batch,
    read_header,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import Codec

NOW_MS = 1_700_000_000_000
# A backend keeps scratch memory from call to call, so one backend for all examples is the harder test.
COLUMNAR = CompiledBackend()
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


def index(backend: CleaningBackend, buffer: bytes, slots: int, skipped: set[int], from_offset: int) -> tuple[Indexed, bytes, int, int]:
    offset_map = OffsetMap(slots * SLOT_BYTES)
    indexed = backend.scan(buffer, array("q")).index(offset_map, skipped=skipped, from_offset=from_offset)
    return indexed, bytes(offset_map.memory), offset_map.entries, offset_map.latest_offset


def scanned(chunk: Chunk) -> tuple[int, int, list[int]]:
    return chunk.size_bytes, chunk.next_batch_bytes, list(chunk.special)


def same_scan(buffer: bytes, marked: "array[int]") -> tuple[Chunk, Chunk]:
    plain, columnar = ReferenceBackend().scan(buffer, marked), COLUMNAR.scan(buffer, marked)
    assert scanned(columnar) == scanned(plain)
    return plain, columnar


def same_filter(plain: Chunk, columnar: Chunk, offset_map: OffsetMap, retentions: dict[int, BatchRetention]) -> bytes:
    memory = bytes(offset_map.memory)
    expected = plain.filter(offset_map, retentions, Tombstones(NOW_MS, 1000))
    found = columnar.filter(offset_map, retentions, Tombstones(NOW_MS, 1000))
    assert bytes(found.data) == bytes(expected.data)
    assert found[1:] == expected[1:]
    assert bytes(offset_map.memory) == memory, "the filter pass only reads the map"
    return bytes(found.data)


@pytest.fixture(params=[compiled.GROUP_BYTES_MAX, 300])
def group_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Groups as they are, and so small that batches fall into several."""
    monkeypatch.setattr(compiled, "GROUP_BYTES_MAX", request.param)
    return int(request.param)


@pytest.mark.parametrize("group", [compiled.GROUP_BYTES_MAX, 300])
@settings(max_examples=settings.default.max_examples // 2)
@given(BATCHES, st.integers(0, 2**60), st.integers(2, 60), st.data())
def test_equal_on_any_sound_batches(group: int, batches: list, base_offset: int, slots: int, data: st.DataObject):
    buffer = encode(batches, base_offset)
    positions = [at for at, _ in split_batches(buffer)]
    skipped = set(data.draw(st.lists(st.sampled_from(positions)))) if positions else set()
    last_offsets = sorted({header.last_offset for _, header in split_batches(buffer)})
    first_dirty = data.draw(st.sampled_from([0, base_offset, *last_offsets]))
    marked = array("q", sorted(data.draw(st.sets(st.sampled_from(last_offsets)))) if last_offsets else [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "GROUP_BYTES_MAX", group)
        expected = index(ReferenceBackend(), buffer, slots, skipped, first_dirty)
        assert index(COLUMNAR, buffer, slots, skipped, first_dirty) == expected
        buffer += buffer[: data.draw(st.integers(0, 70))]
        plain, columnar = same_scan(buffer, marked)
        offset_map = OffsetMap(slots * SLOT_BYTES)
        plain.index(offset_map, skipped=skipped, from_offset=first_dirty)
        retentions = {at: data.draw(st.sampled_from(list(BatchRetention))) for at in plain.special}
        for at, header in split_batches(buffer):
            if retentions.get(at) is BatchRetention.KEEP_UNTIL_HORIZON and not header.record_count:
                retentions[at] = BatchRetention.KEEP  # an empty batch has nothing that a horizon could be for
        same_filter(plain, columnar, offset_map, retentions)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("per_batch", [1, 3, 2000])
def test_equal_on_large_logs_and_what_stays_is_sound(codec: Codec, per_batch: int, group_bytes: int):
    """The latest record of each key stays, in batches that read well; cleaning again changes nothing."""
    rng = random.Random(per_batch)
    latest: dict[bytes | None, int] = {}
    buffer, offset = bytearray(), 2**33
    while offset < 2**33 + 6000:
        records = []
        for _ in range(per_batch):
            key = b"key-%d" % rng.randrange(3000)
            records.append(Record(offset, NOW_MS + rng.randrange(100), key, rng.randbytes(rng.randrange(200))))
            latest[key] = offset
            offset += 1
        buffer += encode_batch(records, base_offset=records[0].offset, codec=codec)
    plain, columnar = same_scan(bytes(buffer), array("q"))
    maps = [OffsetMap(4000 * SLOT_BYTES), OffsetMap(4000 * SLOT_BYTES)]
    counts = [chunk.index(map_, skipped=frozenset(), from_offset=0) for chunk, map_ in zip((plain, columnar), maps, strict=True)]
    assert counts[0] == counts[1]
    states = [(bytes(map_.memory), map_.entries, map_.latest_offset) for map_ in maps]
    assert states[0] == states[1]
    data = same_filter(plain, columnar, maps[1], {})
    assert {record.key: record.offset for at, _ in split_batches(data) for record in decode_batch(data, at)} == latest
    assert same_filter(*same_scan(data, array("q")), maps[1], {}) == data


@pytest.mark.parametrize("seed", range(4))
def test_equal_on_damaged_records(seed: int):
    """Damage behind a right checksum reaches the kernels: both backends refuse, or both give the same."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(1000):
        records = [
            Record(i, NOW_MS + i, rng.choice([None, rng.randbytes(rng.randrange(9))]), rng.choice([None, rng.randbytes(70)]))
            for i in range(rng.randrange(1, 8))
        ]
        records[0] = records[0]._replace(headers=(Header("trace", b"12"),))
        batch = encode_batch(records, codec=rng.choice([Codec.NONE, Codec.NONE, *Codec]))
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(21, len(batch))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        seal(batch)
        offset_map = OffsetMap(50 * SLOT_BYTES)
        offset_map.put(b"", rng.randrange(8))
        offset_map.latest_offset = rng.randrange(8)
        retention = rng.choice(
            [BatchRetention.FILTER, BatchRetention.FILTER, BatchRetention.FILTER_KEEP, BatchRetention.KEEP, BatchRetention.EMPTY]
        )
        outcomes = []
        for backend in (ReferenceBackend(), COLUMNAR):
            try:
                chunk = backend.scan(bytes(batch), array("q"))
                found = chunk.filter(offset_map, {0: retention}, Tombstones(NOW_MS, 1000))
                outcomes.append((scanned(chunk), bytes(found.data), *map(list, found[1:4]), *found[4:]))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]
        refused += outcomes[0] is None
    assert 100 < refused < 1000


def test_any_bytes_at_all_are_cleaned_or_refused_alike():
    rng = random.Random(11)
    sound = encode([([(1, 0, b"k", b"v" * 50, [])] * 5, {"is_control": False}, 0, False)], 10)
    for _ in range(2000):
        buffer = bytearray(sound * rng.randrange(1, 4))
        for _ in range(rng.randrange(1, 4)):
            # Not only anywhere: a checksum hides everything else.
            buffer[rng.choice([rng.randrange(len(buffer)), rng.randrange(17)])] = rng.randrange(256)
        outcomes = []
        for backend in (ReferenceBackend(), COLUMNAR):
            try:
                outcomes.append(scanned(backend.scan(bytes(buffer), array("q"))))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]


def test_what_the_attributes_say_is_special():
    batches = [encode_batch([Record(at, 0, b"k", b"v")], base_offset=at, is_transactional=at == 5) for at in (5, 6)]
    assert read_header(batches[0]).attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)
    _, columnar = same_scan(b"".join(batches), array("q", [3, 6]))
    assert list(columnar.special) == [0, len(batches[0])]
