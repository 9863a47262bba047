"""Tests of several copies of a log as one."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, encode_batch, read_header
from ottla.protocol.records.merged_batches import Batch, merge_batches


def batch(base: int, last: int, kept: list[int]) -> Batch:
    data = bytes(encode_batch([Record(offset, 0, None, b"v") for offset in kept], base_offset=base, last_offset=last))
    return Batch(read_header(data), data)


def test_one_copy_is_itself() -> None:
    log = [batch(0, 3, [0, 1, 2, 3]), batch(4, 4, [4])]
    assert list(merge_batches([log])) == log
    assert list(merge_batches([])) == []


def test_every_offset_comes_once() -> None:
    log = [batch(number, number, [number]) for number in range(6)]
    assert list(merge_batches([log[:4], log[2:], log[1:5]])) == log


def test_what_compaction_removed_from_one_copy_comes_from_the_other() -> None:
    whole, cleaned, last = batch(0, 3, [0, 1, 2, 3]), batch(0, 3, [3]), batch(7, 7, [7])
    assert list(merge_batches([[cleaned, last], [whole]])) == [whole, last]


def test_a_batch_that_overlaps_is_left_out() -> None:
    assert [each.header.base_offset for each in merge_batches([[batch(0, 5, [0, 5])], [batch(3, 3, [3]), batch(6, 6, [6])]])] == [0, 6]


@given(st.lists(st.integers(1, 4), max_size=8), st.data())
def test_copies_that_begin_and_end_anywhere_give_the_whole(sizes: list[int], data: st.DataObject) -> None:
    log, base = [], 0
    for size in sizes:
        log.append(batch(base, base + size - 1, list(range(base, base + size))))
        base += size
    cuts = [sorted(data.draw(st.tuples(st.integers(0, len(log)), st.integers(0, len(log))))) for _ in range(3)]
    merged = list(merge_batches([log[start:end] for start, end in cuts]))
    expected = sorted({each.header.base_offset for start, end in cuts for each in log[start:end]})
    assert [each.header.base_offset for each in merged] == expected
    assert all(len(decode_batch(each.data)) == each.header.record_count for each in merged)
