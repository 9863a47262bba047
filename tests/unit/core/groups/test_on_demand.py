"""Sequences made when looked at are tuples to whoever looks."""

from ottla.core.groups.on_demand import OnDemand


class Squares(OnDemand[int]):
    """Counts how often somebody looked."""

    looks = 0

    def __len__(self) -> int:
        return 3

    def _make(self) -> tuple[int, ...]:
        self.looks += 1
        return (0, 1, 4)


def test_to_whoever_looks_it_is_a_tuple() -> None:
    squares = Squares()
    assert squares == (0, 1, 4)
    assert not squares != (0, 1, 4)  # noqa: SIM202 - as a tuple compares with it
    assert squares == Squares()
    assert squares != [0, 1, 4]
    assert squares != (0, 1)
    assert (squares[2], squares[1:], list(squares), repr(squares)) == (4, (1, 4), [0, 1, 4], "(0, 1, 4)")
    assert hash(squares) == hash((0, 1, 4))


def test_its_length_and_its_truth_make_nothing() -> None:
    squares = Squares()
    assert squares
    assert len(squares) == 3
    assert squares.looks == 0
