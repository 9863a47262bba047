"""Tasks that nobody else keeps."""

import asyncio
import gc

from ottla.broker.background import Background


def test_a_task_lives_until_it_ends() -> None:
    async def run() -> list[str]:
        background, done = Background(), []

        async def work() -> None:
            await asyncio.sleep(0)
            gc.collect()
            done.append("work")

        task = background.start(work())
        await task
        await asyncio.sleep(0)
        assert background._tasks == set()
        return done

    assert asyncio.run(run()) == ["work"]


def test_all_are_cancelled() -> None:
    async def run() -> bool:
        background = Background()
        task = background.start(asyncio.sleep(3600))
        background.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())
