"""A request that waits: woken once for many appends, answered at the latest when its time is up, and gone afterwards."""

import asyncio

import pytest

from ottla.broker.delayed import Delayed
from ottla.broker.partitions import Partition
from ottla.core.model import TopicPartition
from ottla.storage.memory_files import MemoryFiles
from ottla.storage.partition_log import LogSettings, PartitionLog


class Wait:
    def __init__(self, enough_after: int, wait_s: float) -> None:
        self.partitions = [
            Partition(TopicPartition("t", number), PartitionLog(MemoryFiles(), f"t-{number}", LogSettings())) for number in range(2)
        ]
        self.asked: list[bool] = []
        self.enough_after = enough_after
        self.delayed = Delayed(asyncio.get_running_loop(), self.partitions, self.try_again, wait_s)

    def try_again(self, time_is_up: bool) -> bool:
        self.asked.append(time_is_up)
        return len(self.asked) >= self.enough_after


def run(story) -> None:
    asyncio.run(story())


def test_several_appends_of_one_turn_are_one_look() -> None:
    async def story() -> None:
        wait = Wait(enough_after=1, wait_s=60)
        for partition in wait.partitions:
            partition.grew()
        assert wait.asked == []
        await asyncio.sleep(0)
        assert wait.asked == [False]
        assert all(partition.waiters == set() for partition in wait.partitions)

    run(story)


def test_it_looks_again_until_it_is_enough() -> None:
    async def story() -> None:
        wait = Wait(enough_after=2, wait_s=60)
        for _ in range(3):
            wait.partitions[0].grew()
            await asyncio.sleep(0)
        assert wait.asked == [False, False]

    run(story)


@pytest.mark.parametrize("wait_s", [0, 0.01])
def test_time_is_up(wait_s: float) -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=wait_s)
        await asyncio.sleep(0.05)
        assert wait.asked == [True]
        wait.partitions[0].grew()
        await asyncio.sleep(0)
        assert wait.asked == [True]

    run(story)


def test_nobody_waits_any_more() -> None:
    async def story() -> None:
        wait = Wait(enough_after=99, wait_s=0.01)
        wait.partitions[0].grew()
        wait.delayed.cancel()
        assert all(partition.waiters == set() for partition in wait.partitions)
        await asyncio.sleep(0.05)
        assert wait.asked == []

    run(story)
