"""Looking again and again: a look that fails is said, and the next one comes."""

import asyncio
from typing import Any

from ottla.broker.watch import Watch


class Looking(Watch):
    what = "the test's picture"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.looks = 0
        self._failures = failures
        self.enough = asyncio.Event()

    async def look(self) -> None:
        self.looks += 1
        if self.looks == self._failures + 2:
            self.enough.set()
        if self.looks <= self._failures:
            raise RuntimeError("a bug")

    def pause_s(self) -> float:
        return 0


def test_it_looks_until_it_is_stopped_and_says_what_failed(caplog: Any) -> None:
    async def story() -> None:
        watch = Looking(failures=2)
        await watch.stop()  # it has not begun
        watch.begin()
        async with asyncio.timeout(5):
            await watch.enough.wait()
        await watch.stop()
        looks = watch.looks
        for _ in range(3):
            await asyncio.sleep(0)
        assert watch.looks == looks

    asyncio.run(story())
    assert caplog.messages == ["the test's picture could not be drawn; it is tried again"] * 2
