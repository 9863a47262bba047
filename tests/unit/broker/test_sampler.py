"""Sampling again and again: a sample that fails is said, and the next one comes."""

import asyncio
from typing import Any

from ottla.broker.sampler import Sampler


class CountingSampler(Sampler):
    subject = "the test's subject"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.samples = 0
        self._failures = failures
        self.enough = asyncio.Event()

    async def sample(self) -> None:
        self.samples += 1
        if self.samples == self._failures + 2:
            self.enough.set()
        if self.samples <= self._failures:
            raise RuntimeError("a bug")

    def pause_s(self) -> float:
        return 0


def test_it_samples_until_it_is_stopped_and_logs_what_failed(caplog: Any) -> None:
    async def story() -> None:
        sampler = CountingSampler(failures=2)
        await sampler.stop()  # it has not started
        sampler.start()
        async with asyncio.timeout(60):
            await sampler.enough.wait()
        await sampler.stop()
        samples = sampler.samples
        for _ in range(3):
            await asyncio.sleep(0)
        assert sampler.samples == samples

    asyncio.run(story())
    assert caplog.messages == ["sampling the test's subject failed; it is tried again"] * 2
