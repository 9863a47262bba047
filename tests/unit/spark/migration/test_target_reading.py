"""Reads of the target, with scripted Spark jobs; as a part of a migration: test_filling.py."""

from typing import Any

import pytest

from ottla.client.settings import ClientSettings
from ottla.spark.migration import target_reading
from ottla.spark.migration.contents import RECORDS_MAX
from ottla.spark.migration.shape import Shape
from ottla.spark.migration.target_reading import TargetReads
from ottla.spark.migration.values import Cluster, Extent, Migration
from ottla.spark.sink.producer_settings import parse_producer_settings

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))


@pytest.mark.parametrize(("source_partitions", "size"), [(2, RECORDS_MAX), (200, 200_000)])
def test_a_target_is_read_in_parts_that_are_larger_for_many_source_partitions(
    monkeypatch: pytest.MonkeyPatch, source_partitions: int, size: int
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(
        target_reading, "summarize", lambda _spark, reader: read.extend(each for task in reader.tasks for each in task.ranges)
    )
    monkeypatch.setattr(target_reading.Contents, "add", lambda *_: None)
    planned = Migration(source_cluster=HERE, target_cluster=HERE, source="wide", target="narrow")
    starts = dict.fromkeys(range(source_partitions), 0)
    reads = TargetReads(None, planned, target=Shape("narrow", "id", 1), starts=starts, tasks_max=2)  # type: ignore[arg-type]
    held = {0: Extent(0, 2 * size + 1)}
    assert reads.unread(held) == 2 * size + 1
    reads.read(held)
    assert sorted((each.start, each.end) for each in read) == [(0, size), (size, 2 * size), (2 * size, 2 * size + 1)]
    read.clear()
    reads.read({0: Extent(0, 0)})
    assert read == []
