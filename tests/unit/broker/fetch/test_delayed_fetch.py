"""A request that waits: woken once for many appends, answered at the latest when its time is up, and gone afterwards."""

import asyncio

import pytest

from ottla.broker.fetch.delayed_fetch import DelayedFetch
from ottla.broker.logs.partition import Partition
from ottla.core.model import Record, TopicPartition
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.waiting import wait_until_async


class Wait:
    def __init__(self, enough_after: int, wait_s: float) -> None:
        self.partitions = [
            Partition(TopicPartition("t", number), PartitionLog(MemoryFiles(), f"t-{number}", LogSettings())) for number in range(2)
        ]
        self.asked: list[bool] = []
        self.enough_after = enough_after
        self.delayed = DelayedFetch(asyncio.get_running_loop(), self.partitions, self.try_again, wait_s)

    def try_again(self, time_is_up: bool) -> bool:
        self.asked.append(time_is_up)
        return len(self.asked) >= self.enough_after


def append(partition: Partition) -> None:
    partition.append_records([Record(0, 5, None, b"x")], now_ms=5)


def run(story) -> None:
    asyncio.run(story())


def test_several_appends_in_one_iteration_are_one_try() -> None:
    async def story() -> None:
        wait = Wait(enough_after=1, wait_s=60)
        for partition in wait.partitions:
            append(partition)
        assert wait.asked == []
        await asyncio.sleep(0)
        assert wait.asked == [False]
        assert all(partition.waiters == set() for partition in wait.partitions)

    run(story)


def test_it_tries_again_until_there_is_enough() -> None:
    async def story() -> None:
        wait = Wait(enough_after=2, wait_s=60)
        for _ in range(3):
            append(wait.partitions[0])
            await asyncio.sleep(0)
        assert wait.asked == [False, False]

    run(story)


@pytest.mark.parametrize("wait_s", [0, 0.01])
def test_time_is_up(wait_s: float) -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=wait_s)
        await wait_until_async(lambda: wait.asked, "the end of the wait")
        assert wait.asked == [True]
        append(wait.partitions[0])
        await asyncio.sleep(0)
        assert wait.asked == [True]

    run(story)


def test_a_cancelled_fetch_leaves_no_callbacks() -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=0.01)
        append(wait.partitions[0])
        wait.delayed.cancel()
        assert all(partition.waiters == set() for partition in wait.partitions)
        await asyncio.sleep(0.05)
        assert wait.asked == []

    run(story)
