"""The oracle of the migration trials finds what it is there to find, and nothing in a copy that is right."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from ottla.testing import Broker
from trials.migration.oracle import WRONG_MAX, Carried, Copy, Expected, OffsetMap, Source, TargetCheck, wrong_group
from trials.migration.plain_copy import DEFECTS, PlainCopy, arguments
from trials.migration.records import (
    MARK_HEADER,
    PARTITIONERS,
    SOURCE_HEADER,
    Ends,
    Record,
    RecordMaker,
    commit,
    committed,
    copied,
    mark_of,
    no_key,
    read_topic,
    source_of,
)

MAKER = RecordMaker(3, partitions=4, keys=60)
MADE = MAKER.make(600)
TARGETS = 2


def place(key: bytes) -> int:
    return PARTITIONERS["murmur2"](key, TARGETS)


def with_offsets(records: list[Record], first: int = 0) -> list[Record]:
    """As a broker numbers them."""
    ends: Counter[int] = Counter()
    numbered = []
    for each in records:
        numbered.append(each._replace(offset=first + ends[each.partition]))
        ends[each.partition] += 1
    return numbered


READ = with_offsets(MADE, first=3)
"""The source: its first offsets were of a transaction that was aborted."""
WRITTEN = [copied(each, "flights", each.partition % TARGETS if each.key is None else place(each.key)) for each in READ]


def check(records: list[Record]) -> TargetCheck:
    checked = TargetCheck(Expected("flights", Source(READ), MAKER.written, place))
    checked.check(with_offsets(records))
    return checked


def test_a_right_copy_is_right_and_gives_the_offset_map():
    checked = check(WRITTEN)
    assert checked.wrong == []
    assert checked.offset_map.count == 600
    first = next(iter(checked.offset_map.copies(WRITTEN[0].partition)))
    assert first == Copy(0, READ[0].partition, READ[0].offset)
    assert sum(checked.offset_map.end(partition) for partition in range(TARGETS)) == 600


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        ("lost", "of the source is lost"),
        ("twice", "as one before"),
        ("swapped", "and comes behind"),
        ("later", "and differs from it"),
        ("changed", "and differs from it"),
        ("revived", "and differs from it"),
        ("keyless", "and differs from it"),
        ("without-header", "and differs from it"),
        ("without-source", "has no header that says where it comes from"),
        ("elsewhere", "and its key belongs to"),
        ("invented", "where no committed record is"),
    ],
)
def test_a_defect_is_found(defect: str, words: str):
    wrong = check(DEFECTS[defect](list(WRITTEN))).wrong
    assert any(words in each for each in wrong), wrong


def test_every_defect_has_its_test():
    marks = test_a_defect_is_found.pytestmark  # type: ignore[attr-defined]
    assert {defect for defect, _ in marks[0].args[1]} == set(DEFECTS)


def test_what_no_reader_may_see_is_found():
    aborted = copied(Record(0, 1, b"k1", b"k1:0;", 0, ()), "flights", place(b"k1"))
    (wrong,) = check([*WRITTEN, aborted]).wrong
    assert wrong.endswith("is 0@1 of the source, where no committed record is")


def test_a_record_that_was_acknowledged_and_is_not_in_the_source_either_is_found():
    checked = TargetCheck(Expected("flights", Source(READ), {**MAKER.written, b"k1": MAKER.written[b"k1"] + 1}, place))
    checked.check(with_offsets(WRITTEN))
    (wrong,) = checked.wrong
    assert wrong == f"b'k1' has {MAKER.written[b'k1']} records, and {MAKER.written[b'k1'] + 1} were acknowledged"


def test_a_hopeless_target_is_not_read_to_its_end():
    wrong = check([each._replace(timestamp_ms=1) for each in WRITTEN]).wrong
    assert len(wrong) == WRONG_MAX + 1
    assert wrong[-1] == "the rest was not read"


@pytest.fixture
def offset_map() -> OffsetMap:
    """One target partition with records of two partitions of the source, at offsets with a gap."""
    copies = OffsetMap()
    for copy in (Copy(0, 0, 0), Copy(1, 1, 0), Copy(3, 0, 1), Copy(4, 1, 1)):
        copies.add(0, copy)
    return copies


@pytest.mark.parametrize(
    ("source", "committed", "stated", "replay", "words"),
    [
        ({0: 1, 1: 1}, 2, 0, 0, []),
        ({0: 1, 1: 1}, 3, 0, 0, []),
        ({0: 2}, 1, 1, 1, []),
        ({0: 2, 1: 2}, 5, 0, 0, []),
        ({}, 0, 0, 0, []),
        ({0: 1, 1: 1}, 4, 0, 0, ["0 is committed at 4 and skips 3, which the group has not read"]),
        ({0: 1, 1: 1}, 1, 1, 1, ["0 is committed at 1, and the first record that the group has not read is 3"]),
        ({0: 2}, 1, 0, 1, ["1 records are read again, and 0 were stated"]),
    ],
)
def test_a_group_skips_nothing_and_reads_again_what_was_stated(
    offset_map: OffsetMap, source: dict[int, int], committed: int, stated: int, replay: int, words: list[str]
):
    assert wrong_group(offset_map, [0], Carried(source, {0: committed}, stated)) == (words, replay)


def test_a_group_has_an_offset_in_every_partition(offset_map: OffsetMap):
    assert wrong_group(offset_map, [0, 1], Carried({}, {0: 0, 1: 0}, None)) == ([], 0)
    assert wrong_group(offset_map, [0, 1], Carried({}, {0: 0}, None)) == (["1 has no committed offset"], 0)


def test_an_empty_target_has_lost_everything():
    wrong = check([]).wrong
    assert wrong[WRONG_MAX] == "600 of 600 records are lost"


# --- the records of a trial are of every kind, and say what they are


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


# --- the migration in plain Python, which stands for the command in tests of the trials; tests/clients/test_migration_trial.py kills it


def test_it_goes_on_where_it_ended_and_carries_groups_over(ottla_broker: Broker, tmp_path: Path) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 2)
    for partition in range(2):
        ottla_broker.produce("flights", [b"%d:%d;" % (partition, number) for number in range(4)], partition=partition)
    commit(servers, "g", "flights", {0: 3, 1: 1})
    words = f"flights moved --bootstrap-server {servers} --partitions 1 --groups g --partitioner murmur2 --plan {tmp_path / 'plan'}"
    given = arguments(words.split())
    assert PlainCopy(arguments([*words.split(), "--dry-run"])).run() == {"groups": {"g": {"replay": 0}}}
    assert list(read_topic(servers, "moved")) == []
    assert PlainCopy(given).run() == {"groups": {"g": {"replay": 0}}}
    ottla_broker.produce("flights", [b"0:4;"], partition=0)
    assert PlainCopy(given).run() == {"groups": {"g": {"replay": 0}}}
    sources = [source_of(each, "flights") for each in read_topic(servers, "moved")]
    # What the group has read comes first.
    assert sorted(sources[:4]) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert sorted(sources[4:8]) == [(0, 3), (1, 1), (1, 2), (1, 3)]
    assert sources[8:] == [(0, 4)]
    assert committed(servers, "g", "moved") == {0: 4}
    assert (tmp_path / "plan").read_text() == "g,moved,0,4\n"


def test_a_defect_has_a_name():
    with pytest.raises(SystemExit):
        arguments(["--defect", "unknown"])


# --- what is read of topics and groups, from our broker


def test_every_record_is_read_as_it_was_written(ottla_broker: Broker) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 3)
    ottla_broker.produce("flights", [(b"key", b"value"), (b"key", None)], headers={"a": b"1", "b": None}, timestamp_ms=42, partition=2)
    ottla_broker.produce("flights", [b"alone"], timestamp_ms=43, partition=0)
    headers = (("a", b"1"), ("b", None))
    expected = [Record(0, 0, None, b"alone", 43, ()), Record(2, 0, b"key", b"value", 42, headers), Record(2, 1, b"key", None, 42, headers)]
    assert sorted(read_topic(servers, "flights"), key=lambda each: each[:2]) == expected
    ends = Ends(servers)
    assert ends.of("flights") == {0: 1, 1: 0, 2: 2}
    assert ends.of("missing") == {}
    assert ends.of("missing") == {}  # it was not made by asking


def test_offsets_are_committed_and_read(ottla_broker: Broker) -> None:
    servers = ottla_broker.bootstrap_servers
    ottla_broker.create_topic("flights", 3)
    commit(servers, "g", "flights", {0: 5, 2: 7})
    assert committed(servers, "g", "flights") == {0: 5, 2: 7}
    assert committed(servers, "h", "flights") == {}
    assert committed(servers, "g", "missing") == {}
