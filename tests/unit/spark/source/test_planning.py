"""Ranges from offsets, and losses, in a batch and in a stream."""

import logging

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.options.values import OptionError
from ottla.spark.source.planning import DataLossError, added, among, plan_batch, plan_first_batch, plan_stream, report
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.stream_offsets import Offsets

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
EARLY, LATE = Offsets({A: 10, B: 0}, {"t": "id"}), {A: 50, B: 30}


def _a(start: int, end: int) -> OffsetRange:
    return OffsetRange(*A, start, end, "id")


def _b(start: int, end: int) -> OffsetRange:
    return OffsetRange(*B, start, end, "id")


def test_a_batch_reads_what_is_there():
    assert plan_batch(EARLY.by_partition, LATE, EARLY, LATE) == ([_a(10, 50), _b(0, 30)], [])
    assert plan_batch({A: 50, B: 5}, {A: 50, B: 6}, EARLY, LATE) == ([_b(5, 6)], [])


@pytest.mark.parametrize(
    ("starts", "ends", "kept"),
    [
        ({A: 9, B: 5}, LATE, [_a(10, 50), _b(5, 30)]),
        ({A: 10, B: 0}, {A: 51, B: 5}, [_a(10, 50), _b(0, 5)]),
        ({A: 51, B: 0}, {A: 51, B: 5}, [_b(0, 5)]),
        ({A: 5, B: 0}, {A: 9, B: 5}, [_b(0, 5)]),
    ],
)
def test_records_that_a_batch_misses_are_told(starts, ends, kept: list[OffsetRange]):
    ranges, losses = plan_batch(starts, ends, EARLY, LATE)
    assert ranges == kept
    assert all("of t-0, which holds 10 to 50" in loss for loss in losses)
    assert losses


def test_an_end_before_its_start_is_no_range():
    with pytest.raises(OptionError, match="resolved start offset 51 is greater than the resolved end offset 50 for topic t partition 0"):
        plan_batch({A: 51, B: 0}, LATE, EARLY, LATE)


def test_a_loss_ends_the_query_or_is_reported(caplog: pytest.LogCaptureFixture):
    with pytest.raises(DataLossError, match=r'^first\. Some data may have been lost .*"failOnDataLoss" to false'):
        report(["first", "second"], fail_on_data_loss=True)
    with caplog.at_level(logging.WARNING):
        report(["first", "second"], fail_on_data_loss=False)
    assert [message.split(".")[0] for message in caplog.messages] == ["first", "second"]
    report([], fail_on_data_loss=True)


def _offsets(by_partition: dict[TopicPartition, int], **topic_ids: str) -> Offsets:
    return Offsets(by_partition, topic_ids)


def test_a_stream_goes_on_where_it_was():
    start, end = _offsets({A: 10, B: 30}, t="id"), _offsets({A: 50, B: 30}, t="id")
    assert added(start, end) == []
    assert plan_stream(start, end, {}) == ([_a(10, 50)], [])


def test_new_partitions_start_at_their_earliest():
    start, end = _offsets({A: 10}, t="id"), _offsets({A: 10, B: 30}, t="id")
    assert added(start, end) == [B]
    assert plan_stream(start, end, {B: 0}) == ([_b(0, 30)], [])
    assert plan_stream(start, end, {B: 7}) == ([_b(7, 30)], ["Added partition t-1 starts from 7 instead of 0"])
    assert plan_stream(start, end, {}) == ([], ["Cannot find initial offsets for partitions t-1. They may have been deleted"])


def test_what_a_stream_has_lost():
    start = _offsets({A: 10, B: 30, C: 4}, t="id")
    assert plan_stream(start, _offsets({A: 11}, t="id"), {}) == ([_a(10, 11)], ["Partitions t-1, u-0 have been deleted"])
    assert plan_stream(start, _offsets({A: 9, B: 30, C: 4}, t="id"), {}) == ([], ["Partition t-0 offset was changed from 10 to 9"])


def test_a_topic_that_was_recreated_is_read_from_its_beginning():
    start, end = _offsets({A: 10, B: 30, C: 1}, t="old", u="u"), _offsets({A: 50, C: 1}, t="id", u="u")
    assert added(start, end) == [A]
    ranges, (loss,) = plan_stream(start, end, {A: 2})
    assert ranges == [_a(2, 50)]
    assert loss.startswith("Topic t was deleted and re-created: its id was old, now it is id")


def test_without_an_id_a_topic_is_the_same():
    assert plan_stream(_offsets({A: 10}), _offsets({A: 50}, t="id"), {}) == ([_a(10, 50)], [])
    assert plan_stream(_offsets({A: 10}, t="id"), _offsets({A: 50}), {}) == ([OffsetRange(*A, 10, 50)], [])


def test_a_first_batch_that_was_interrupted_is_empty_again():
    assert plan_first_batch(_offsets({A: 15, B: 3}, t="id"), _offsets({A: 12, B: 3, C: 5}, t="id")) == ([], [])


def test_partitions_that_others_have_too():
    assert among(_offsets({A: 1, B: 2}, t="id"), _offsets({B: 9, C: 9})) == _offsets({B: 2}, t="id")
