"""Tests of where `ottla consume` begins."""

from typing import Any

import pytest

from ottla.cli.consume.starts import BEGINNING, END, STORED, Start, StartKind, assignments, parse_start
from ottla.cli.groups.failures import CommandFailed
from ottla.client.consumer.topic_partition import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, TopicPartition
from ottla.core.model import TopicPartition as Partition

PARTITIONS = [Partition("t", 0), Partition("t", 1)]


class Cluster:
    """Partitions of ten records each, one a second."""

    def get_watermark_offsets(self, _: Any, timeout: float | None = None) -> tuple[int, int]:
        return 3, 10

    def offsets_for_times(self, partitions: Any, timeout: float | None = None) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, each.offset // 1000) for each in partitions]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("beginning", BEGINNING),
        ("end", END),
        ("stored", STORED),
        ("0", Start(StartKind.OFFSET, 0)),
        ("-5", Start(StartKind.BEFORE_END, 5)),
        ("@1700000000000", Start(StartKind.TIME, 1_700_000_000_000)),
        ("@2023-11-14T22:13:20.000", Start(StartKind.TIME, 1_700_000_000_000)),
        ("@2023-11-14T23:13:20.000+01:00", Start(StartKind.TIME, 1_700_000_000_000)),
    ],
)
def test_texts(text: str, start: Start) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "x", "--1", "1.5", "9999999999999999999", "@", "@yesterday", "@-1", "١"])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"is none of|write milliseconds"):
        parse_start(text)


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (BEGINNING, OFFSET_BEGINNING),
        (END, OFFSET_END),
        (STORED, OFFSET_STORED),
        (Start(StartKind.OFFSET, 10), 10),
        (Start(StartKind.OFFSET, 0), 0),
        (Start(StartKind.BEFORE_END, 5), -2005),
        (Start(StartKind.TIME, 7_000), 7),
    ],
)
def test_every_partition_has_its_offset(start: Start, offset: int) -> None:
    found = assignments(PARTITIONS, start, Cluster(), timeout_s=1)
    assert [(each.topic, each.partition, each.offset) for each in found] == [("t", 0, offset), ("t", 1, offset)]


def test_an_offset_behind_the_end() -> None:
    with pytest.raises(CommandFailed, match="t-0 ends at offset 10: there is no offset 11 to begin at"):
        assignments(PARTITIONS, Start(StartKind.OFFSET, 11), Cluster(), timeout_s=1)
