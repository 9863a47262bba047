"""The oracle of the migration trials finds what it is there to find, and nothing in a copy that is right."""

from collections import Counter

import pytest

from ottla.testing.migration_trials.broken import DEFECTS
from ottla.testing.migration_trials.oracle import WRONG_MAX, Carried, Copy, Expected, OffsetMap, Source, TargetCheck, wrong_group
from ottla.testing.migration_trials.records import PARTITIONERS, Record, RecordMaker, copied

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
