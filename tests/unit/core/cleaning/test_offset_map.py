"""The offset map: it remembers what a dict remembers, in fixed memory, at the slots where Kafka's map puts it."""

from hashlib import md5
from struct import pack, unpack_from

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap, probe

KEYS = st.binary(max_size=3)


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**63 - 1))), st.lists(KEYS))
def test_it_remembers_what_a_dict_remembers(puts: list[tuple[bytes, int]], others: list[bytes]) -> None:
    offset_map, expected = OffsetMap(SLOT_BYTES * 300), {}
    for key, offset in puts:
        assert offset_map.put(key, offset)
        expected[key] = offset
    assert {key: offset_map.get(key) for key in [*expected, *others]} == {**dict.fromkeys(others, -1), **expected}
    assert offset_map.entries == len(expected)
    assert offset_map.latest_offset == (puts[-1][1] if puts else -1)


def test_a_full_map_refuses_new_keys_and_known_ones_and_keeps_its_size() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10 + 23)
    assert (offset_map.slots, offset_map.entries_max, len(offset_map.memory)) == (10, 9, 240)
    assert all(offset_map.put(b"%d" % number, number) for number in range(9))
    assert offset_map.is_full
    assert not offset_map.put(b"9", 9)
    assert not offset_map.put(b"8", 9)
    assert (offset_map.get(b"8"), offset_map.get(b"9"), offset_map.entries, offset_map.latest_offset) == (8, -1, 9, 8)
    assert (len(offset_map.memory), offset_map.utilization) == (240, 0.9)


def test_a_cleared_map_is_as_new() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10)
    offset_map.put(b"k", 7)
    offset_map.clear()
    assert (offset_map.get(b"k"), offset_map.entries, offset_map.latest_offset) == (-1, 0, -1)
    assert not any(bytes(offset_map.memory))


def test_a_slot_is_the_digest_and_the_offset_where_the_first_probe_says() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10)
    offset_map.put(b"key", 258)
    digest = md5(b"key").digest()
    at = abs(unpack_from(">i", digest)[0]) % 10 * SLOT_BYTES
    assert offset_map.memory[at : at + SLOT_BYTES] == digest + bytes((0, 0, 0, 0, 0, 0, 1, 2))


def test_one_slot_stays_free_so_that_searching_ends() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 3, load_factor=1.0)
    assert [offset_map.put(bytes((number,)), number) for number in range(3)] == [True, True, False]
    assert offset_map.get(b"missing") == -1


def test_a_map_for_no_key_at_all_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        OffsetMap(SLOT_BYTES)


def test_probes_are_the_windows_of_the_digest_and_then_one_after_the_other() -> None:
    digest = bytes(range(16))
    windows = [int.from_bytes(digest[at : at + 4]) for at in range(13)]
    assert [probe(digest, attempt) for attempt in range(13)] == windows
    assert [probe(digest, attempt) for attempt in (13, 14, 20)] == [windows[-1] + 1, windows[-1] + 2, windows[-1] + 8]


def test_probes_wrap_around_in_32_bits() -> None:
    most = bytes(12) + pack(">i", 2**31 - 1)
    assert [probe(most, attempt) for attempt in (12, 13, 14)] == [2**31 - 1, 0, 2**31 - 1]
    negative = bytes(12) + pack(">i", -5)
    assert [probe(negative, attempt) for attempt in (12, 13, 17, 18)] == [5, 4, 0, 1]
