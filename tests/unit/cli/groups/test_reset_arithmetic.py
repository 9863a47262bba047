"""The arithmetic of a reset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.groups.failures import UsageProblem
from ottla.cli.groups.reset_arithmetic import clamp, parse_topic, shift
from ottla.client.admin.values import CommittedOffset
from ottla.core.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("argument", "numbers"), [("t:0", [0]), ("t:2,0,1", [2, 0, 1]), ("t:0,", [0]), ("t:+1", [1]), ("t:-1", [-1]), ("t:0:", [0])]
)
def test_partitions_of_an_argument(argument: str, numbers: list[int]) -> None:
    assert parse_topic(argument) == [TopicPartition("t", number) for number in numbers]


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("t", "Invalid topic arg 't', expected topic name and partitions"),
        ("t:", "Invalid topic arg 't:', expected topic name and partitions"),
        ("t:0:1", "Invalid topic arg 't:0:1', expected topic name and partitions"),
        ("t:x", "Invalid partition 'x' specified in topic arg 't:x''"),
        ("t:0,,1", "Invalid partition '' specified in topic arg 't:0,,1''"),
        ("t:2147483648", "Invalid partition '2147483648' specified in topic arg 't:2147483648''"),
        ("t:" + "9" * 5000, f"Invalid partition '{'9' * 5000}' specified"),
    ],
)
def test_arguments_that_make_no_sense(argument: str, sentence: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        parse_topic(argument)
    assert str(raised.value).startswith(sentence)


def test_shifting() -> None:
    committed = {ZERO: CommittedOffset(5), ONE: CommittedOffset(-1)}
    assert shift([ZERO], committed, -7) == {ZERO: -2}
    for partition in (ONE, TopicPartition("u", 3)):
        with pytest.raises(UsageProblem, match=f"for partition {partition.topic}-{partition.partition} since there is no current"):
            shift([ZERO, partition], committed, 1)


def test_what_lies_outside_a_log_is_warned_of() -> None:
    clamped = clamp({ZERO: 1, ONE: 50}, {ZERO: 2, ONE: 0}, {ZERO: 9, ONE: 9})
    assert clamped.offsets == {ZERO: 2, ONE: 9}
    assert clamped.warnings == (
        "New offset (1) is lower than earliest offset for topic partition t-0. Value will be set to 2",
        "New offset (50) is higher than latest offset for topic partition t-1. Value will be set to 9",
    )


@given(st.integers(), st.integers(0, 1000), st.integers(0, 1000))
def test_a_clamped_offset_lies_within_its_log(offset: int, start: int, size: int) -> None:
    (found,), warnings = (
        clamp({ZERO: offset}, {ZERO: start}, {ZERO: start + size})[0].values(),
        clamp({ZERO: offset}, {ZERO: start}, {ZERO: start + size})[1],
    )
    assert start <= found <= start + size
    assert (found == offset) == (not warnings)
