"""Loading groups: both backends come to what replaying record by record comes to, for any records in any batches, sound or damaged."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.coordinator import FinishLoading
from ottla.coordinator.loading import Reducer, load, skipped_record
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.log.arrow import loading
from ottla.groups.log.arrow.loading import CompiledReducer
from ottla.groups.log.records import OffsetRecord, decode, encode_key, encode_value
from ottla.groups.log.replayed_state import LoadedGroups, ReferenceReducer
from ottla.groups.settings import GroupSettings
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import decode_batch, empty_batch, encode_batch, read_header, seal, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.primitives import Writer

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
MARKER_VALUE = bytes(6)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.sampled_from(["", "g", "group", "eight888", "eighteen888888888-", "größe", "組", "😀"])
texts = st.just("") | names | st.text(max_size=20)
topic_ids = st.sampled_from([bytes(16), b"0123456789abcdef"])
partitions = st.integers(-1, 3) | int32


@st.composite
def offset_values(draw: st.DrawFn) -> bytes:
    """Of every version, perhaps with bytes behind what is read."""
    version = draw(st.integers(0, 4))
    out = Writer(flexible=version == 4).int16(version).int64(draw(int64))
    if version >= 3:
        out.int32(draw(int32))
    metadata = draw(texts)
    out.string(metadata)
    out.int64(draw(int64))
    if version == 1:
        out.int64(draw(st.just(-1) | int64))
    if version == 4:
        fields = draw(st.lists(st.tuples(st.integers(0, 200), topic_ids | st.binary(max_size=20)), max_size=3))
        out.uvarint(len(fields))
        for tag, field in fields:
            out.uvarint(tag).uvarint(len(field)).raw(field)
    return out.raw(draw(st.just(b"") | st.binary(max_size=3))).to_bytes()


@st.composite
def group_values(draw: st.DrawFn) -> bytes:
    """Of every version, with up to two members of the same fields."""
    version = draw(st.integers(0, 4))
    flexible = version == 4
    out = Writer(flexible).int16(version)

    def text(value: str) -> None:
        out.string(value)

    def nullable(value: str | None) -> None:
        out.nullable_string(value)

    text(draw(texts))
    out.int32(draw(int32))
    nullable(draw(st.none() | names))
    nullable(draw(st.none() | names))
    if version >= 2:
        out.int64(draw(int64))
    members = draw(st.lists(names, max_size=2))
    out.uvarint(len(members) + 1) if flexible else out.int32(len(members))
    for member_id in members:
        text(member_id)
        if version >= 3:
            nullable(draw(st.none() | names))
        text("client")
        text("/127.0.0.1")
        if version >= 1:
            out.int32(draw(st.just(-1) | int32))
        out.int32(draw(int32))
        for data in (draw(st.binary(max_size=5)), b""):
            (out.uvarint(len(data) + 1) if flexible else out.int32(len(data))).raw(data)
        if flexible:
            out.uvarint(0)
    if flexible:
        out.uvarint(0)
    return out.to_bytes()


@st.composite
def offset_keys(draw: st.DrawFn) -> bytes:
    key = Writer().int16(draw(st.integers(0, 1))).string(draw(names)).string(draw(names)).int32(draw(partitions))
    return key.raw(draw(st.just(b"") | st.binary(max_size=2))).to_bytes()


def spoiled(sound: bytes, rng: random.Random) -> bytes:
    """Some bytes of it changed, or its end lost."""
    data = bytearray(sound)
    for _ in range(rng.randrange(3)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xC0, 0xED, 0xF4, 0xFF])
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.randrange(2) else data)


@st.composite
def entries(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record: mostly sound, now and then not."""
    kind = draw(st.sampled_from(["offset", "offset", "offset", "group", "unknown", "garbage"]))
    if kind == "offset":
        key, value = draw(offset_keys()), draw(st.none() | offset_values())
    elif kind == "group":
        key, value = Writer().int16(2).string(draw(names)).to_bytes(), draw(st.none() | group_values())
    elif kind == "unknown":
        key, value = Writer().int16(draw(st.integers(3, 2**15 - 1))).raw(draw(st.binary(max_size=5))).to_bytes(), None
    else:
        return draw(st.none() | st.binary(max_size=12)), draw(st.none() | st.binary(max_size=12))
    if draw(st.integers(0, 4)) == 0:
        rng = random.Random(draw(st.integers(0, 2**32)))
        key, value = (key, spoiled(value, rng)) if value is not None and rng.randrange(2) else (spoiled(key, rng), value)
    return key, value


headers = st.lists(st.builds(Header, st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
records = st.lists(st.tuples(entries(), st.integers(1, 3), headers), min_size=1, max_size=8)
shapes = st.fixed_dictionaries(
    {
        "codec": st.sampled_from([Codec.NONE, Codec.NONE, *Codec]),
        "is_log_append_time": st.booleans(),
        "is_transactional": st.booleans(),
        "is_control": st.sampled_from([False, False, False, True]),
        "delete_horizon_ms": st.none() | st.just(5),
    }
)
batches = st.lists(st.tuples(records, shapes, st.integers(0, 5), st.sampled_from([False, False, False, True])), max_size=6)


def encode(parts: Sequence[tuple[Any, dict[str, Any], int, bool]]) -> bytes:
    """A log as compaction may leave it: gaps between records and behind the last one, empty batches."""
    buffer, offset = bytearray(), 0
    for entries_, shape, trailing, is_emptied in parts:
        base, batch = offset, []
        for (key, value), step, record_headers in entries_:
            offset += step
            batch.append(Record(offset, 7, key, value, record_headers))
        offset += trailing
        encoded = encode_batch(batch, base_offset=base, last_offset=offset, **shape)
        buffer += empty_batch(read_header(encoded)) if is_emptied else encoded
        offset += 1
    return bytes(buffer)


def replayed(records_: Sequence[Record]) -> LoadedGroups:
    """The reference: record by record."""
    coordinator, unknown, problems = GroupCoordinator(GroupSettings()), 0, []
    for record in records_:
        try:
            decoded = decode(record.key, record.value)
        except PeerError as error:
            problems.append(skipped_record(record.offset, error))
            continue
        if decoded is None:
            unknown += 1
        else:
            coordinator.replay(decoded)
    return LoadedGroups(coordinator.state.replayed, unknown, tuple(problems))


def folded(fold: Reducer[Any], buffer: bytes, skipped: set[int], from_offset: int) -> LoadedGroups:
    piece = fold.scan(buffer)
    assert piece.size_bytes == len(buffer)
    assert piece.next_batch_bytes == 0
    fold.apply(piece, skipped=skipped, from_offset=from_offset)
    return fold.finish()


@pytest.mark.parametrize("tiny", [False, True])
@settings(max_examples=settings.default.max_examples // 3)
@given(batches, st.integers(0, 40), st.data())
def test_both_backends_reduce_to_what_replay_reduces_to(tiny: bool, parts: Any, from_offset: int, data: st.DataObject):
    buffer = encode(parts)
    positions = [at for at, _ in split_batches(buffer)]
    skipped = data.draw(st.sets(st.sampled_from(positions), max_size=2)) if positions else set()
    counted = [at for at, header in split_batches(buffer) if at not in skipped and header.last_offset >= from_offset]
    expected = replayed([record for at in counted for record in decode_batch(buffer, at)])
    with pytest.MonkeyPatch.context() as patch:
        if tiny:
            patch.setattr(loading, "ROWS_MIN", 8)
            patch.setattr(loading, "ARENA_BYTES_MIN", 1)
            patch.setattr(loading, "GROUP_BYTES_MAX", 100)
        for fold in (ReferenceReducer(), CompiledReducer()):
            assert folded(fold, buffer, skipped, from_offset) == expected


@settings(max_examples=settings.default.max_examples // 3)
@given(batches)
def test_a_coordinator_that_begins_with_it_serves_as_one_that_replayed(parts: Any):
    buffer = encode(parts)
    found = [record for at, _ in split_batches(buffer) for record in decode_batch(buffer, at)]
    served = []
    for durable in (replayed(found).replayed, folded(CompiledReducer(), buffer, set(), 0).replayed):
        coordinator = GroupCoordinator(GroupSettings())
        coordinator.restore(durable)
        effects = coordinator.handle(FinishLoading(), now_ms=1000)
        served.append((sorted(coordinator.snapshot().groups, key=lambda group: group.group_id), sorted(effects.log_lines)))
    assert served[0] == served[1]


@pytest.mark.parametrize("seed", range(3))
def test_equal_on_damaged_batches(seed: int):
    """Damage behind a right checksum reaches the kernels: both backends refuse, or both come to the same."""
    rng = random.Random(seed)
    refused = 0
    value = encode_value(OffsetRecord(group_id="", topic="", partition=0, value=OffsetValue(5, 1, "meta", 9, topic_id=b"i" * 16)))
    for _ in range(400):
        commits = [
            Record(
                i,
                7 + i,
                encode_key(OffsetRecord(group_id="g", topic="t", partition=rng.randrange(3), value=None)),
                rng.choice([None, value, value]),
                (Header("trace", b"12"),) if rng.randrange(3) == 0 else (),
            )
            for i in range(rng.randrange(1, 5))
        ]
        batch = encode_batch(commits, codec=rng.choice([Codec.NONE, Codec.NONE, Codec.NONE, *Codec]))
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(21, len(batch))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        seal(batch)
        outcomes: list[LoadedGroups | None] = []
        for fold in (ReferenceReducer(), CompiledReducer()):
            try:
                outcomes.append(folded(fold, bytes(batch), set(), 0))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]
        refused += outcomes[0] is None
    assert 40 < refused < 360


def test_any_bytes_at_all_are_loaded_or_refused_alike():
    rng = random.Random(11)
    key = encode_key(OffsetRecord(group_id="g", topic="t", partition=0, value=None))
    sound = b"".join(encode_batch([Record(number, 0, key, None)], base_offset=number) for number in range(3))
    for _ in range(800):
        buffer = bytearray(sound)
        for _ in range(rng.randrange(1, 4)):
            buffer[rng.choice([rng.randrange(len(buffer)), rng.randrange(17)])] = rng.randrange(256)
        outcomes: list[Any] = []
        for fold in (ReferenceReducer(), CompiledReducer()):
            try:
                piece = fold.scan(bytes(buffer))
                fold.apply(piece, skipped=frozenset(), from_offset=0)
                outcomes.append((piece.size_bytes, piece.next_batch_bytes, list(piece.special), fold.finish()))
            except PeerError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1]


# A log of three producers: plain batches (producer -1), transactional ones, and their ends.
steps = st.lists(st.tuples(st.integers(-1, 2), st.sampled_from(["commits", "commits", "commit", "abort"]), records), max_size=14)


@settings(max_examples=settings.default.max_examples // 3)
@given(steps, st.sampled_from([400, 1 << 20]))
def test_only_committed_transactions_count_in_the_order_of_the_log(script: Any, segment_bytes: int):
    log = PartitionLog(MemoryFiles(), "t-0", LogSettings(segment_bytes=segment_bytes))
    log.open(0)
    written: list[tuple[int, list[Record]]] = []  # producer and records; those of open transactions until they end
    counted: list[bool] = []
    open_batches: dict[int, list[int]] = {}
    for producer, what, parts in script:
        if what == "commits":
            first = log.log_end_offset
            found = [Record(number, 7, key, value, record_headers) for number, ((key, value), _, record_headers) in enumerate(parts)]
            log.append(
                encode_batch(found, producer_id=producer, producer_epoch=0, is_transactional=producer >= 0), now_ms=0, from_client=False
            )
            written.append((producer, [record._replace(offset=first + record.offset) for record in found]))
            counted.append(producer < 0)
            if producer >= 0:
                open_batches.setdefault(producer, []).append(len(written) - 1)
        elif producer >= 0:
            marker = Record(0, 7, COMMIT if what == "commit" else ABORT, MARKER_VALUE)
            end = encode_batch([marker], producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True)
            log.append(end, now_ms=0, from_client=False)
            for number in open_batches.pop(producer, []):
                counted[number] = what == "commit"
    expected = replayed([record for (_, found), counts in zip(written, counted, strict=True) if counts for record in found])
    still_open = [written[number] for number in sorted(number for numbers in open_batches.values() for number in numbers)]
    for backend in (ReferenceReducer, CompiledReducer):
        loaded = load(log, backend)
        assert loaded._replace(open_transactions=()) == expected
        assert [tuple(transaction) for transaction in loaded.open_transactions] == still_open
