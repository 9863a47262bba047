"""The records of a trial are of every kind, and say what they are."""

from collections import Counter
from itertools import pairwise

import pytest

from ottla.testing.migration_trials.records import (
    MARK_HEADER,
    PARTITIONERS,
    SOURCE_HEADER,
    Record,
    RecordMaker,
    copied,
    mark_of,
    no_key,
    source_of,
)


def record(**changes: object) -> Record:
    return Record(0, 7, b"key", b"value", 1_000, ())._replace(**changes)


def test_streams_are_numbered_and_keys_stay_in_their_partition():
    maker = RecordMaker(1, partitions=6, keys=40)
    made = [*maker.make(2_000), *maker.make(500)]
    numbers: Counter[bytes] = Counter()
    for each in made:
        name, number = mark_of(each) or (b"", -1)
        assert number == numbers[name]
        numbers[name] += 1
        assert name == (no_key(b"k", each.partition) if each.key is None else each.key)
        assert each.key is None or each.partition == PARTITIONERS["murmur2"](each.key, 6)
    assert numbers == maker.written


def test_there_are_records_of_every_kind():
    made = RecordMaker(1, partitions=6, keys=40).make(2_000)
    values = [each.value for each in made]
    assert None in values
    assert b"" in values
    assert max(len(value or b"") for value in values) > 5_000
    assert {each.key for each in made} >= {None, b"", b"k\xff\x00\xfe"}
    headers = [each.headers for each in made if each.headers]
    assert {len(each) for each in headers} == {1, 4}
    assert any(("twice", None) in each for each in headers)
    times = [each.timestamp_ms for each in made]
    back = sum(later < earlier for earlier, later in pairwise(times))
    assert 0 < back < len(times) / 4
    assert times[-1] > times[0]


def test_the_seed_decides():
    first, again, other = (RecordMaker(seed, partitions=3, keys=20).make(100) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_copy_says_where_it_comes_from_in_its_last_header():
    copy = copied(record(headers=(("a", None),)), "flights:2", 5)
    assert copy.partition == 5
    assert copy.headers == (("a", None), (SOURCE_HEADER, b"flights:2:0:7"))
    assert source_of(copy, "flights:2") == (0, 7)
    assert source_of(copy, "flights") is None


@pytest.mark.parametrize("value", [None, b"", b"t:1", b"t:1:x", b"t::2", b"u:1:2", b"t:1:-2", b"\xff:1:2"])
def test_other_headers_say_nothing(value: bytes | None):
    assert source_of(record(headers=((SOURCE_HEADER, value),)), "t") is None
    assert source_of(record(headers=((SOURCE_HEADER, b"t:1:2"), ("a", value))), "t") is None
    assert source_of(record(), "t") is None


def test_a_record_without_a_mark_has_no_stream():
    assert mark_of(record(value=b"k1:12;xyz")) == (b"k1", 12)
    assert mark_of(record(value=b":0;")) == (b"", 0)
    assert mark_of(record(value=None, headers=((MARK_HEADER, b"k1:3"),))) == (b"k1", 3)
    assert mark_of(record(value=b"xyz")) is None
    assert mark_of(record(value=None)) is None


def test_partitioners_are_those_of_the_clients():
    # Values of Java's UtilsTest and of zlib.
    assert PARTITIONERS["murmur2"](b"21", 1_000) == (-973932308 & 0x7FFFFFFF) % 1_000
    assert PARTITIONERS["crc32"](b"123456789", 1_000) == 0xCBF43926 % 1_000
