"""The oracle of the kill tests finds what it is there to find."""

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.oracle import GroupSnapshot, invented, wrong_commits, wrong_rows

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
WRITTEN = {(0, 0): "a", (0, 1): "b", (1, 0): "c"}
ROWS = {(0, 0, "a"): 1, (0, 1, "b"): 1, (1, 0, "c"): 1}


def test_every_record_once_is_right_and_what_is_not_committed_may_wait():
    assert wrong_rows(WRITTEN, ROWS, {A: 2, B: 1}) == []
    assert wrong_rows(WRITTEN, {(0, 0, "a"): 1}, {A: 1}) == []
    # Processed and not yet committed to the group, and read before the producer got the acknowledgement.
    assert wrong_rows({(0, 0): "a"}, ROWS, {A: 1}) == []
    assert invented(WRITTEN, ROWS) == []


def test_a_record_that_is_missing_below_the_committed_offset_is_lost():
    assert wrong_rows(WRITTEN, {(0, 0, "a"): 1, (1, 0, "c"): 1}, {A: 2, B: 1}) == ["0@1 is lost"]


def test_a_record_that_is_there_twice_is_found_committed_or_not():
    assert wrong_rows(WRITTEN, {**ROWS, (0, 0, "a"): 2}, {}) == ["0@0 is there 2 times"]


def test_a_record_that_is_something_else_is_found():
    assert wrong_rows(WRITTEN, {**ROWS, (0, 0, "z"): 1}, {}) == ["0@0 is there 2 times"]
    assert wrong_rows(WRITTEN, {(0, 0, "z"): 1}, {A: 1}) == ["0@0 is something else"]


def test_a_row_that_was_never_written_is_found():
    assert invented(WRITTEN, {**ROWS, (0, 2, "x"): 1}) == ["0@2 was never written"]


def test_a_group_may_be_behind_and_never_ahead():
    assert wrong_commits({}, GroupSnapshot({A: 5}, {A: 5, B: 1})) == []
    assert wrong_commits({A: 3}, GroupSnapshot({A: 4}, {A: 9})) == []
    assert wrong_commits({}, GroupSnapshot({A: 6}, {A: 5})) == ["t-0 is committed at 6, processed up to 5"]
    assert wrong_commits({}, GroupSnapshot({B: 1}, {A: 5})) == ["t-1 is committed at 1, processed up to 0"]


def test_a_group_never_goes_back_nor_forgets():
    assert wrong_commits({A: 5}, GroupSnapshot({A: 4}, {A: 5})) == ["t-0 went back from 5 to 4"]
    assert wrong_commits({A: 5}, GroupSnapshot({}, {A: 5})) == ["t-0 went back from 5 to nothing"]
