"""The end of a turn: settled, gone on, settled again, and written once."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.turn import ROUNDS_MAX, Turn


class Connection:
    """Says what it was told; `then` is what going on leads to."""

    def __init__(self, name: str, told: list[str], then: Callable[[], None] | None = None) -> None:
        self.name = name
        self.told = told
        self.then = then

    def go_on(self) -> None:
        self.told.append(f"{self.name} goes on")
        if self.then is not None:
            self.then()

    def write_out(self) -> None:
        self.told.append(f"{self.name} writes")


def in_one_turn(begin: Callable[[Turn], None]) -> Turn:
    turn = Turn()

    async def run() -> None:
        begin(turn)
        await asyncio.sleep(0)

    asyncio.run(run())
    return turn


def test_everything_is_settled_before_anybody_goes_on_and_written_at_the_end() -> None:
    told: list[str] = []
    first, second = Connection("first", told), Connection("second", told)

    def begin(turn: Turn) -> None:
        for name, connection in (("a", first), ("b", second)):
            turn.settle_later(lambda name=name, connection=connection: (told.append(f"{name} settles"), turn.answered(connection)))

    in_one_turn(begin)
    assert told == ["a settles", "b settles", "first goes on", "second goes on", "first writes", "second writes"]


def test_what_going_on_leads_to_is_settled_in_the_same_turn_and_shares_the_write() -> None:
    told: list[str] = []

    def begin(turn: Turn) -> None:
        connection = Connection("one", told)
        connection.then = lambda: (told.count("one goes on") < 3 and turn.settle_later(lambda: turn.answered(connection))) or None
        turn.answered(connection)

    in_one_turn(begin)
    assert told == ["one goes on"] * 3 + ["one writes"]


def test_a_turn_ends_even_if_there_is_always_more_to_settle() -> None:
    told: list[str] = []

    def begin(turn: Turn) -> None:
        connection = Connection("one", told)
        connection.then = lambda: turn.answered(connection)
        turn.answered(connection)

    in_one_turn(begin)
    assert told[: ROUNDS_MAX + 1] == ["one goes on"] * ROUNDS_MAX + ["one writes"]


def test_one_that_fails_does_not_take_the_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def begin(turn: Turn) -> None:
        turn.settle_later(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        turn.settle_later(lambda: turn.answered(Connection("one", told)))

    in_one_turn(begin)
    assert told == ["one goes on", "one writes"]
    assert "failed unexpectedly" in caplog.text
