"""Openings: one for a partition at a time; results and errors are handed over on the loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.broker.logs.openings import NotOpen, Opening, Openings
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.model import TopicPartition

NAME = TopicPartition("t", 0)


class Outcomes:
    """The results and errors of openings."""

    def __init__(self) -> None:
        self.loaded: list[tuple[object, bool]] = []
        self.failed: list[tuple[str, bool]] = []
        self.threads: list[threading.Thread] = []

    def opening(self, load, *, is_wanted: bool = True) -> Opening[object]:
        def loaded(result: object, wanted: bool) -> None:
            self.threads.append(threading.current_thread())
            self.loaded.append((result, wanted))

        return Opening(load, loaded, lambda error, wanted: self.failed.append((str(error), wanted)), is_wanted=is_wanted)


def run(steps) -> None:
    async def with_openings() -> None:
        openings = Openings(ThreadPoolExecutor(2))
        await steps(openings, Outcomes())
        openings.close()

    asyncio.run(with_openings())


def test_a_worker_thread_loads_and_the_loop_takes_over() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        await openings.start(NAME, outcomes.opening(threading.current_thread), after=None)
        (thread, is_wanted), *_ = outcomes.loaded
        assert is_wanted
        assert thread is not threading.current_thread()
        assert outcomes.threads == [threading.current_thread()]
        assert openings.under_way() == []

    run(steps)


def test_it_begins_after_what_it_must_wait_for() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        after = asyncio.get_running_loop().create_future()
        task = openings.start(NAME, outcomes.opening(lambda: 1), after=after)
        await asyncio.sleep(0.01)
        assert outcomes.loaded == []
        after.set_result(None)
        await task
        assert outcomes.loaded == [(1, True)]

    run(steps)


def test_what_is_borrowed_and_asked_for_meanwhile_is_wanted() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        assert openings.wanted(NAME) is None
        task = openings.start(NAME, outcomes.opening(lambda: 1, is_wanted=False), after=None)
        assert openings.wanted(NAME) is task
        await task
        await openings.start(NAME, outcomes.opening(lambda: 2, is_wanted=False), after=None)
        assert outcomes.loaded == [(1, True), (2, False)]

    run(steps)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(StorageError("the disk reports an error"), "the disk reports an error"), (ZeroDivisionError("oh"), "t-0 could not be opened")],
)
def test_every_error_is_handed_over(error: Exception, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise error

    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        await openings.start(NAME, outcomes.opening(fail), after=None)
        ((said, _),) = outcomes.failed
        assert sentence in said
        assert NAME not in openings

    run(steps)
    assert ("Traceback" in caplog.text) == isinstance(error, ZeroDivisionError)


def test_an_opening_of_a_deleted_topic_makes_room_for_the_next() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        assert openings.take_out([NAME]) == ()
        go_on = threading.Event()
        first = openings.start(NAME, outcomes.opening(lambda: go_on.wait(60)), after=None)
        assert openings.take_out([NAME, TopicPartition("t", 1)]) == [first]
        second = openings.start(NAME, outcomes.opening(lambda: 2), after=first)
        go_on.set()
        await asyncio.gather(first, second)
        assert outcomes.loaded == [(True, True), (2, True)]

    run(steps)


def test_a_client_that_gets_the_error_of_an_opening_tries_again() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        opening = openings.start(NAME, outcomes.opening(lambda: 1), after=None)
        assert NotOpen("t-0 is being opened", opening).code is ErrorCode.KAFKA_STORAGE_ERROR
        await opening

    run(steps)
