"""Ends of logs in one sample: each looked up once, some logs opened for it, offline ones left out."""

from types import SimpleNamespace
from typing import Any

from ottla.broker.monitoring.log_ends import NOT_OPEN, OPENINGS_MAX, LogEnds
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition


class Partitions:
    """Partition 0 of each topic is in use and ends at 7; others open with the end 9, those of `offline` not at all."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    def in_use(self, name: TopicPartition) -> Any:
        return SimpleNamespace(log=SimpleNamespace(log_end_offset=7)) if name.partition == 0 else None

    def by_name(self, topic: str, partition: int) -> Any:
        self.opened.append((topic, partition))
        if topic == "offline":
            raise StorageError("the disk is gone")
        return SimpleNamespace(log=SimpleNamespace(log_end_offset=9))


def ends(*names: tuple[str, int]) -> tuple[dict[str, dict[int, int]], list[tuple[str, int]]]:
    partitions: Any = Partitions()
    found = LogEnds(partitions)
    topics = {topic: found.of_topic(topic) for topic, _ in names}
    for name in names:
        found.look_up(*name)
    return topics, partitions.opened


def test_logs_in_use_are_not_opened() -> None:
    assert ends(("t", 0)) == ({"t": {0: 7}}, [])


def test_other_logs_are_opened_and_offline_ones_have_no_end() -> None:
    assert ends(("t", 1), ("offline", 2)) == ({"t": {1: 9}, "offline": {2: NOT_OPEN}}, [("t", 1), ("offline", 2)])


def test_a_sample_opens_so_many_logs_only() -> None:
    topics, opened = ends(*(("t", number) for number in range(1, OPENINGS_MAX + 3)))
    assert len(opened) == OPENINGS_MAX
    assert [topics["t"][number] for number in (OPENINGS_MAX, OPENINGS_MAX + 1)] == [9, NOT_OPEN]
