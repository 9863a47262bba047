"""Positions at which a query begins and ends: precedence of options, and invalid ones for a batch."""

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.options.positions import (
    Edge,
    GroupOffsets,
    SpecificOffsets,
    Timestamp,
    Timestamps,
    check_batch,
    listed,
    position,
    starting_position,
)
from ottla.spark.options.values import OptionError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_times_count_before_offsets_and_one_time_before_many():
    options = {"endingoffsets": "latest"}
    assert position({}, "ending", Edge.EARLIEST) is Edge.EARLIEST
    assert position(options, "ending", Edge.EARLIEST) is Edge.LATEST
    options["endingoffsetsbytimestamp"] = '{"t":{"0":7}}'
    assert position(options, "ending", Edge.EARLIEST) == Timestamps({T0: 7})
    options["endingtimestamp"] = "9"
    assert position(options, "ending", Edge.EARLIEST) == Timestamp(9)


@pytest.mark.parametrize(
    ("text", "value"), [(" Earliest", Edge.EARLIEST), ("LATEST ", Edge.LATEST), ('{"t":{"1":-2}}', SpecificOffsets({T1: -2}))]
)
def test_offsets_are_words_or_json(text: str, value: object):
    assert starting_position({"startingoffsets": text}, Edge.LATEST, None) == value


def test_a_group_s_offsets_with_kafka_s_reset():
    options = {"startingoffsets": "Group"}
    assert starting_position(options, Edge.LATEST, "g") == GroupOffsets("g", "latest")
    options["kafka.auto.offset.reset"] = "EARLIEST"
    assert starting_position(options, Edge.LATEST, "g") == GroupOffsets("g", "earliest")
    with pytest.raises(OptionError, match=r'say which in the option "group\.id"'):
        starting_position(options, Edge.LATEST, None)
    with pytest.raises(OptionError, match="must be one of earliest, latest, none"):
        starting_position({**options, "kafka.auto.offset.reset": "by_duration:PT1H"}, Edge.LATEST, "g")
    with pytest.raises(
        OptionError, match=r"Kafka option 'auto\.offset\.reset' is not supported\. Instead set the source option 'startingOffsets'"
    ):
        starting_position({**options, "startingtimestamp": "5"}, Edge.LATEST, "g")
    assert starting_position({"startingoffsets": "group", "startingtimestamp": "5"}, Edge.LATEST, None) == Timestamp(5)


@pytest.mark.parametrize(
    ("starting", "ending", "message"),
    [
        (Edge.LATEST, Edge.LATEST, "starting offset can't be latest for batch queries on Kafka"),
        (Edge.EARLIEST, Edge.EARLIEST, "ending offset can't be earliest for batch queries on Kafka"),
        (SpecificOffsets({T0: 0, T1: -1}), Edge.LATEST, "startingOffsets for t-1 can't be latest for batch queries on Kafka"),
        (Edge.EARLIEST, SpecificOffsets({T0: -2}), "ending offset for t-0 .endingOffsets. can't be earliest for batch queries on Kafka"),
        (SpecificOffsets({T0: 5}), SpecificOffsets({T0: 3}), "start offset 5 is greater than the end offset 3 for topic t partition 0"),
        (Timestamps({T0: 5}), Timestamps({T0: 3}), "start timestamp 5 is greater than the end timestamp 3 for topic t partition 0"),
        (
            SpecificOffsets({T0: 5}),
            SpecificOffsets({T1: 6}),
            "the same topic-partitions. Topic-partitions for start offset: t-0, .*end offset: t-1",
        ),
    ],
)
def test_what_a_batch_cannot_have(starting, ending, message: str):
    with pytest.raises(OptionError, match=message):
        check_batch(starting, ending)


def test_words_in_numbers_are_not_compared():
    check_batch(SpecificOffsets({T0: 5, T1: -2}), SpecificOffsets({T0: -1, T1: 0}))
    check_batch(SpecificOffsets({T0: 5}), Timestamps({T1: 3}))
    check_batch(Timestamp(5), Timestamp(3))


def test_partitions_in_order():
    assert listed({T1, T0}) == "t-0, t-1"


def test_of_very_many_partitions_the_first():
    assert listed({TopicPartition("t", number) for number in range(50)}).endswith("t-48, t-49")
    assert listed({TopicPartition("t", number) for number in range(2_000)}).endswith("t-48, t-49 and 1950 more")
