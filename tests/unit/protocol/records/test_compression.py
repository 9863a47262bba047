"""The codecs: round trips, the framings that Kafka's clients use, and frames that lie about their size."""

import random
import tracemalloc
import zlib

import cramjam
import pytest

from ottla.protocol.errors import PeerError
from ottla.protocol.records import compression
from ottla.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, Codec, compress, decompress, decompress_into, inflate

LIMIT = 1 << 20
PLAIN = b"".join(b"record %d;" % number for number in range(20_000))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", PLAIN, bytes(LIMIT)])
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), output_bytes_max=LIMIT) == data


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(codec: Codec, kind: type) -> None:
    assert decompress(codec, kind(compress(codec, kind(PLAIN))), output_bytes_max=LIMIT) == PLAIN


@pytest.mark.parametrize("codec", list(Codec))
def test_more_than_allowed_is_the_peers_error(codec: Codec) -> None:
    with pytest.raises(PeerError, match="more than 1048576 bytes"):
        decompress(codec, compress(codec, bytes(LIMIT + 1)), output_bytes_max=LIMIT)


def test_a_bomb_is_not_blown_up() -> None:
    bomb = compress(ZSTD, bytes(200_000_000))
    assert len(bomb) < 20_000
    with pytest.raises(PeerError):
        decompress(ZSTD, bomb, output_bytes_max=LIMIT)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("cut", [1, 10, -1])
def test_a_torn_frame_is_the_peers_error(codec: Codec, cut: int) -> None:
    with pytest.raises(PeerError):
        decompress(codec, compress(codec, PLAIN)[:cut], output_bytes_max=LIMIT)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_junk_is_the_peers_error(codec: Codec) -> None:
    with pytest.raises(PeerError):
        decompress(codec, b"\xff" * 100, output_bytes_max=LIMIT)


def test_gzip_is_gzip() -> None:
    assert zlib.decompress(compress(GZIP, PLAIN), wbits=31) == PLAIN


def test_snappy_comes_raw_or_in_xerial_blocks() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN)), output_bytes_max=LIMIT) == PLAIN
    framed = compress(SNAPPY, PLAIN)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    # two blocks, each with its length before it
    first = int.from_bytes(framed[16:20])
    assert cramjam.snappy.decompress_raw_len(framed[20 : 20 + first]) == 32 * 1024


@pytest.mark.parametrize("block", [b"\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x05abcd"])
def test_a_xerial_block_must_be_all_there(block: bytes) -> None:
    with pytest.raises(PeerError):
        decompress(SNAPPY, compress(SNAPPY, PLAIN) + block, output_bytes_max=LIMIT)


def test_many_small_snappy_blocks_count_together() -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(1000)))
    framed = compress(SNAPPY, b"") + (len(block).to_bytes(4) + block) * 11
    assert decompress(SNAPPY, framed, output_bytes_max=11_000) == bytes(11_000)
    with pytest.raises(PeerError):
        decompress(SNAPPY, framed, output_bytes_max=10_999)


def test_lz4_frames_have_independent_blocks() -> None:
    flags = compress(LZ4, PLAIN)[4]
    assert flags & 0xC0 == 0x40  # version 1
    assert flags & 0x20  # Kafka's Java reader: "Dependent block stream is unsupported"


def test_none_is_the_bytes_themselves() -> None:
    assert compress(NONE, b"abc") == b"abc"


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (0, 9)), (LZ4, (0, 12)), (ZSTD, (-131072, 19))])
def test_levels_are_how_hard_it_tries(codec: Codec, levels: tuple[int, int]) -> None:
    fast, small = (compress(codec, PLAIN, level) for level in levels)
    assert len(small) < len(fast)
    assert len(small) <= len(compress(codec, PLAIN)) <= len(fast)
    assert decompress(codec, fast, output_bytes_max=LIMIT) == decompress(codec, small, output_bytes_max=LIMIT) == PLAIN


def test_codecs_without_levels_take_none() -> None:
    assert compress(NONE, PLAIN, 3) == PLAIN
    assert compress(SNAPPY, PLAIN, 3) == compress(SNAPPY, PLAIN)


def _common_lz4(data: bytes) -> bytearray:
    """A frame as Kafka's own client and librdkafka write it; blocks that do not get smaller are stored."""
    frame = bytearray(b"\x04\x22\x4d\x18\x60\x40\x82")
    for at in range(0, len(data), 1 << 16):
        block = data[at : at + (1 << 16)]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            frame += len(packed).to_bytes(4, "little") + packed
        else:
            frame += (len(block) | 1 << 31).to_bytes(4, "little") + block
    return frame + bytes(4)


@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 16) + 1, 200_000])
@pytest.mark.parametrize("kind", ["text", "noise"])
def test_common_lz4_frames(size: int, kind: str) -> None:
    data = (PLAIN if kind == "text" else random.Random(1).randbytes(200_000))[:size]
    frame, output = _common_lz4(data), memoryview(bytearray(size))
    assert bytes(cramjam.lz4.decompress(bytes(frame))) == data
    assert decompress_into(LZ4, frame, output) == size
    assert output == data
    if size:
        assert decompress_into(LZ4, frame, output[:-1]) is None


def test_damaged_common_lz4_frames_are_judged_as_their_reader_does() -> None:
    rng, frame, verdicts = random.Random(2), _common_lz4(PLAIN[:3000]), set()
    for _ in range(3000):
        damaged = bytearray(frame)
        for _ in range(rng.randrange(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        del damaged[len(damaged) - rng.choice([0, 0, rng.randrange(9)]) :]
        try:
            expected: bytes | None = bytes(cramjam.lz4.decompress(bytes(damaged)))
        except cramjam.DecompressionError:
            expected = None
        try:
            found: bytes | None = decompress(LZ4, damaged, output_bytes_max=LIMIT)
        except PeerError:
            found = None
        assert found == expected
        verdicts.add(found is None)
    assert verdicts == {True, False}


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_memory_is_taken_once(monkeypatch: pytest.MonkeyPatch, codec: Codec) -> None:
    size = 8 << 20
    data = compress(codec, bytes(size))
    rooms: list[int] = []
    original = compression.decompress_into

    def watch(codec: Codec, data: bytes, output: memoryview) -> int | None:
        rooms.append(len(output))
        return original(codec, data, output)

    monkeypatch.setattr(compression, "decompress_into", watch)
    inflated = inflate(codec, data, output_bytes_max=10 * size)
    assert inflated is not None
    assert bytes(inflated) == bytes(size)
    assert rooms[-1] == 10 * size, "a mapping, of which only what is written takes memory"
    assert sum(rooms[:-1]) <= 2 << 20, "the first guess is small, and there is no second one"
    tracemalloc.start()
    try:
        inflated = inflate(codec, data, output_bytes_max=10 * size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 3 << 20, "nothing of it is in the heap"
