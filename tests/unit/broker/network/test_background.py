"""Tasks of requests: kept until they end, with their exceptions."""

import asyncio
import gc

from ottla.broker.network.background import Background
from ottla.broker.protocol.request import Request


def a_request() -> Request:
    return Request(key=3, version=9, correlation_id=1, client_id=None, client_host="", buffer=memoryview(b""), body_at=0)


def test_a_task_lives_until_it_ends() -> None:
    async def run() -> list[str]:
        background, done = Background(), []

        async def work() -> None:
            await asyncio.sleep(0)
            gc.collect()
            done.append("work")

        task = background.start(a_request(), work())
        await task
        await asyncio.sleep(0)
        assert background._tasks == set()
        return done

    assert asyncio.run(run()) == ["work"]


def test_an_exception_ends_the_connection_of_the_request() -> None:
    async def run() -> list[str]:
        request, failures = a_request(), []
        request.fail = lambda error: failures.append(str(error))

        async def work() -> None:
            raise ValueError("wrong")

        await asyncio.wait([Background().start(request, work())])
        await asyncio.sleep(0)
        return failures

    assert asyncio.run(run()) == ["wrong"]


def test_all_are_cancelled() -> None:
    async def run() -> bool:
        background = Background()
        task = background.start(a_request(), asyncio.sleep(3600))
        background.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())
