"""Ranges from offsets, and losses, in a batch and in a stream."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.model import TopicPartition
from ottla.spark.options.values import OptionError
from ottla.spark.source.planning import (
    CheckpointError,
    DataLossError,
    OffsetRange,
    Offsets,
    ReadTask,
    added,
    among,
    from_json,
    group_into_tasks,
    in_checkpoint,
    plan_batch,
    plan_first_batch,
    plan_stream,
    recreated,
    report,
    split,
    to_json,
)

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


Limits = list[tuple[int, int]]


def _split(ranges: Limits, records_max: int | None = None, partitions_min: int | None = None) -> list[tuple[int, int, int]]:
    given = [OffsetRange("t", number, start, end, "id") for number, (start, end) in enumerate(ranges)]
    found = split(given, records_max=records_max, partitions_min=partitions_min)
    assert {each.topic_id for each in found} <= {"id"}
    return [(each.partition, each.start, each.end) for each in found]


@pytest.mark.parametrize(
    ("partitions_min", "ranges", "expected"),
    [
        (None, [(1, 2), (1, 1)], [(0, 1, 2)]),
        (3, [(1, 2), (1, 2), (1, 2)], [(0, 1, 2), (1, 1, 2), (2, 1, 2)]),
        (4, [(1, 5)], [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]),
        (4, [(1, 5), (1, 21)], [(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)]),
        # SPARK-30656: empty ranges do not count
        (4, [(1, 1), (1, 21)], [(1, 1, 6), (1, 6, 11), (1, 11, 16), (1, 16, 21)]),
        (4, [(1, 5), (1, 21), (1, 1)], [(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)]),
        (4, [(1, 2), (1, 1001)], [(0, 1, 2), (1, 1, 334), (1, 334, 667), (1, 667, 1001)]),
        (1, [(1, 5), (1, 21)], [(0, 1, 5), (1, 1, 21)]),
        (3, [(1, 11)], [(0, 1, 4), (0, 4, 7), (0, 7, 11)]),
        # SPARK-28489: no offset is dropped
        (6, [(0, 10), (0, 10), (0, 1)], [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 1)]),
        # SPARK-36576: small ranges leave the arithmetic first
        (
            6,
            [(0, 500), (0, 12000), (0, 15001)],
            [(0, 0, 500), (1, 0, 6000), (1, 6000, 12000), (2, 0, 5000), (2, 5000, 10000), (2, 10000, 15001)],
        ),
        (6, [(0, 1), (0, 1), (0, 10000)], [(0, 0, 1), (1, 0, 1), (2, 0, 2500), (2, 2500, 5000), (2, 5000, 7500), (2, 7500, 10000)]),
        # KafkaOffsetReaderSuite: ranges of resolved offsets
        (4, [(0, 100), (0, 3)], [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 3)]),
    ],
)
def test_partitions_min(partitions_min: int | None, ranges: Limits, expected: list[tuple[int, int, int]]):
    assert _split(ranges, partitions_min=partitions_min) == expected


def test_three_large_ranges():
    expected = [(number, start, start + 5000) for number, end in enumerate((10_000, 15_000, 20_000)) for start in range(0, end, 5000)]
    assert _split([(0, 10_000), (0, 15_000), (0, 20_000)], partitions_min=9) == expected


@pytest.mark.parametrize(
    ("records_max", "partitions_min", "ranges", "expected"),
    [
        # SPARK-49259
        (4, None, [(1, 5)], [(0, 1, 5)]),
        (4, None, [(1, 6)], [(0, 1, 3), (0, 3, 6)]),
        (
            20,
            None,
            [(1, 40), (1, 50), (1, 60)],
            [(0, 1, 20), (0, 20, 40), (1, 1, 17), (1, 17, 33), (1, 33, 50), (2, 1, 20), (2, 20, 40), (2, 40, 60)],
        ),
        (20, 1, [(1, 40)], [(0, 1, 20), (0, 20, 40)]),
        (20, 4, [(1, 40)], [(0, 1, 10), (0, 10, 20), (0, 20, 30), (0, 30, 40)]),
    ],
)
def test_records_max_comes_first(records_max: int, partitions_min: int | None, ranges: Limits, expected: list[tuple[int, int, int]]):
    assert _split(ranges, records_max, partitions_min) == expected


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(-10, 5_000)), min_size=1, max_size=8),
    st.none() | st.integers(50, 2_000),
    st.none() | st.integers(1, 40),
)
def test_every_offset_is_in_one_range(limits: list[tuple[int, int]], records_max: int | None, partitions_min: int | None):
    ranges = [(start, start + size) for start, size in limits]
    found = _split(ranges, records_max, partitions_min)
    for number, (start, end) in enumerate(ranges):
        mine = [(low, high) for partition, low, high in found if partition == number]
        assert all(low < high for low, high in mine)
        assert [low for low, _ in mine] == ([start, *(high for _, high in mine[:-1])] if end > start else [])
        assert not mine or mine[-1][1] == end
        assert records_max is None or all(high - low <= records_max for low, high in mine)


def _ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", partition, 0, size) for partition, size in enumerate(sizes)]


def test_one_task_a_range_without_a_limit_or_within_it():
    ranges = _ranges(3, 1)
    assert group_into_tasks(ranges, None) == [ReadTask((ranges[0],)), ReadTask((ranges[1],))]
    assert group_into_tasks(ranges, 2) == group_into_tasks(ranges, None)


def test_large_ranges_are_spread_and_small_ones_fill_up():
    tasks = group_into_tasks(_ranges(10, 1, 9, 2, 1, 1), 2)
    assert [sum(each.end - each.start for each in task.ranges) for task in tasks] == [12, 12]
    assert sorted(each for task in tasks for each in task.ranges) == _ranges(10, 1, 9, 2, 1, 1)


OFFSETS = {TopicPartition("t", 10): 5, TopicPartition("t", 9): 23, TopicPartition("a", 0): 2**63 - 1}


def test_one_text_for_the_same_offsets():
    offsets = Offsets(OFFSETS, {"t": "id-t", "gone": "id-gone", "a": ""})
    text = '{"a": {"0": 9223372036854775807}, "t": {"9": 23, "10": 5}, "#topic_ids": {"t": "id-t"}}'
    assert json.dumps(to_json(offsets)) == text
    assert from_json(json.loads(text)) == Offsets(OFFSETS, {"t": "id-t"})
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_no_offsets():
    assert from_json(to_json(Offsets({}, {}))) == Offsets({}, {})


def test_what_comes_back_from_a_checkpoint():
    assert in_checkpoint(Offsets(OFFSETS, {"t": "1", "empty": "2", "a": ""})) == Offsets(OFFSETS, {"t": "1"})


def test_the_jvm_connector_s_offsets_have_no_ids():
    assert from_json(json.loads('{"t":{"1":5,"0":23}}')) == Offsets({TopicPartition("t", 0): 23, TopicPartition("t", 1): 5}, {})


@pytest.mark.parametrize(
    "value", [{"t": 5}, {"t": {"x": 5}}, {"t": {"0": "5"}}, {"t": {"0": -1}}, {"t": {"0": True}}, {"#topic_ids": 5}, {"t": None}]
)
def test_invalid_checkpoints(value: dict[str, object]):
    with pytest.raises(CheckpointError, match="Is the checkpoint one of another query"):
        from_json(value)


def test_an_error_shows_the_beginning_of_a_long_text():
    with pytest.raises(CheckpointError) as raised:
        from_json({"t": {str(number): "x" for number in range(10_000)}})
    assert len(str(raised.value)) < 700


def test_re_created_topics():
    before = Offsets(OFFSETS, {"t": "1", "a": "2", "gone": "3"})
    assert recreated(before, {"t": "9", "a": "2", "new": "4"}) == ["t"]
    assert recreated(Offsets(OFFSETS, {}), {"t": "9"}) == []
    assert recreated(before, {"t": ""}) == [], "a broker that has no ids"
