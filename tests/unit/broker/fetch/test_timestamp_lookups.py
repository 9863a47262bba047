"""Lookups in worker threads: in their order, a few at a time, and none fails for the others."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ottla.broker.fetch.timestamp_lookups import PER_JOB, TimestampLookups, TimestampQuery
from ottla.protocol.errors import StorageError
from ottla.protocol.records.record_checks import find_timestamp


class Lookup:
    """A log whose record at a timestamp has the same offset; the largest is 99."""

    def first_at(self, timestamp_ms: int, find: Any) -> tuple[int, int] | None:
        assert find is find_timestamp
        if timestamp_ms == 13:
            raise StorageError("the disk fails")
        return None if timestamp_ms > 99 else (timestamp_ms, timestamp_ms)

    def latest(self, find: Any) -> tuple[int, int]:
        assert find is find_timestamp
        return 99, 99


def look_up(lookups: TimestampLookups, *timestamps_ms: int | None) -> list[Any]:
    async def run() -> list[Any]:
        return await lookups.look_up([TimestampQuery(Lookup(), timestamp_ms) for timestamp_ms in timestamps_ms])  # type: ignore[arg-type]

    return asyncio.run(run())


def test_results_come_in_the_order_of_the_lookups() -> None:
    lookups = TimestampLookups(find_timestamp)
    found = look_up(lookups, 5, None, 100, 13, 6)
    lookups.close()
    assert [str(each) for each in found] == ["(5, 5)", "(99, 99)", "None", "the disk fails", "(6, 6)"]
    assert isinstance(found[3], StorageError)


def test_a_few_at_a_time() -> None:
    class Counting(ThreadPoolExecutor):
        jobs: list[int] = []

        def submit(self, call: Any, job: Any, /, *given: Any, **named: Any) -> Any:
            self.jobs.append(len(job))
            return super().submit(call, job, *given, **named)

    lookups = TimestampLookups(find_timestamp, Counting(1))
    assert look_up(lookups, *[7] * (2 * PER_JOB + 1)) == [(7, 7)] * (2 * PER_JOB + 1)
    assert Counting.jobs == [PER_JOB, PER_JOB, 1]
    lookups.close()
