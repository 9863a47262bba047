"""A lazy sequence equals the tuple of its items."""

from ottla.coordinator.effects import LazySequence


class Squares(LazySequence[int]):
    """Counts how often its items are created."""

    looks = 0

    def __len__(self) -> int:
        return 3

    def _make(self) -> tuple[int, ...]:
        self.looks += 1
        return (0, 1, 4)


def test_it_compares_and_prints_as_a_tuple() -> None:
    squares = Squares()
    assert squares == (0, 1, 4)
    assert not squares != (0, 1, 4)  # noqa: SIM202 - as a tuple compares with it
    assert squares == Squares()
    assert squares != [0, 1, 4]
    assert squares != (0, 1)
    assert (squares[2], squares[1:], list(squares), repr(squares)) == (4, (1, 4), [0, 1, 4], "(0, 1, 4)")
    assert hash(squares) == hash((0, 1, 4))


def test_length_and_truth_create_no_items() -> None:
    squares = Squares()
    assert squares
    assert len(squares) == 3
    assert squares.looks == 0
