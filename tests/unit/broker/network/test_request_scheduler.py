"""Long requests in pieces: what one iteration of the loop spends on them, which request comes next, and what ends them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from ottla.broker.network.request_scheduler import ITERATION_S, SHARE_S, RequestScheduler, Work
from ottla.broker.protocol.request import Request

PIECE_S = 0.001


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class World:
    """A scheduler whose clock advances by `PIECE_S` with every piece; `done` lists the pieces in their order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[str] = []
        self.failed: list[Exception] = []
        self.scheduler = RequestScheduler(lambda: self.now_s)

    def request(self) -> Request:
        request = Request(key=3, version=1, correlation_id=1, client_id=None, client_host="/", buffer=memoryview(b""), body_at=0)
        request.fail = self.failed.append
        return request

    def work(self, name: str, pieces: int, then: Callable[[], None] = lambda: None) -> Work:
        for number in range(pieces):
            self.now_s += PIECE_S
            self.done.append(name)
            if number < pieces - 1:
                yield
        then()

    def start(self, name: str, pieces: int, then: Callable[[], None] = lambda: None) -> Request:
        request = self.request()
        self.scheduler.run(request, self.work(name, pieces, then))
        return request

    async def iterations(self) -> list[int]:
        """The pieces of each iteration of the loop, until nothing is left."""
        counts = []
        while len(self.scheduler):
            before = len(self.done)
            await asyncio.sleep(0)
            counts.append(len(self.done) - before)
        return counts


PIECES_AN_ITERATION = round(ITERATION_S / PIECE_S)
PIECES_A_SHARE = round(SHARE_S / PIECE_S)


@in_a_loop
async def test_a_small_request_ends_in_the_call_that_starts_it() -> None:
    world = World()
    world.start("a", 3)
    assert world.done == ["a"] * 3
    assert len(world.scheduler) == 0


@in_a_loop
async def test_a_long_request_takes_no_more_of_an_iteration_than_its_budget() -> None:
    world = World()
    world.start("a", 95)
    assert len(world.done) == PIECES_AN_ITERATION
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert len(world.done) == 95


@in_a_loop
async def test_fifty_requests_together_take_no_more_than_one() -> None:
    world = World()
    for number in range(50):
        world.start(str(number), 20)
    assert len(world.done) == PIECES_AN_ITERATION, "those that come later in an iteration begin in the next"
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert len(world.done) == 50 * 20


@in_a_loop
async def test_requests_continue_in_turn() -> None:
    world = World()
    world.start("a", 40)
    world.start("b", 40)
    world.start("c", 2)
    await asyncio.sleep(0)
    begun = world.done[PIECES_AN_ITERATION:]
    assert begun[: 3 * PIECES_A_SHARE] == ["a"] * PIECES_A_SHARE + ["b"] * PIECES_A_SHARE + ["c"] * 2
    await world.iterations()
    assert world.done.index("c") < len(world.done) - 60, "a small request does not wait for the end of large ones"


@in_a_loop
async def test_the_budget_is_there_again_in_the_next_iteration() -> None:
    world = World()
    world.start("a", PIECES_AN_ITERATION)
    world.start("b", 1)
    assert "b" not in world.done
    await asyncio.sleep(0)
    assert world.done[-1] == "b"
    await asyncio.sleep(0)
    world.start("c", 1)
    assert world.done[-1] == "c"


@in_a_loop
async def test_work_whose_connection_closes_is_dropped() -> None:
    world = World()
    request = world.start("a", 1000)
    other = world.start("b", 20)
    request.on_disconnect()
    await world.iterations()
    assert world.done.count("a") == PIECES_AN_ITERATION
    assert world.done.count("b") == 20
    other.on_disconnect()  # at the end of its life a request may hear it still


@in_a_loop
async def test_an_exception_ends_its_own_request_alone() -> None:
    world = World()

    def fails() -> None:
        raise ValueError("a mistake")

    world.start("b", 30)
    world.start("a", 1, fails)
    await world.iterations()
    assert [str(error) for error in world.failed] == ["a mistake"]
    assert world.done.count("b") == 30


@in_a_loop
async def test_work_may_start_other_work() -> None:
    world = World()
    world.start("a", 2, lambda: world.start("b", 2) and None)
    await world.iterations()
    assert world.done == ["a", "a", "b", "b"]
    world.start("c", 30, lambda: world.start("d", 30) and None)
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert world.done.count("d") == 30


@in_a_loop
async def test_a_broker_that_stops_drops_all_work() -> None:
    world = World()
    ended: list[str] = []

    def work() -> Work:
        try:
            while True:
                world.now_s += PIECE_S
                yield
        finally:
            ended.append("closed")

    world.scheduler.run(world.request(), work())
    world.scheduler.close()
    await asyncio.sleep(0)
    assert (len(world.scheduler), ended) == (0, ["closed"])
