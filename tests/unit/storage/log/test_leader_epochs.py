"""Leader epochs: where each ended, and what stays when the log loses its beginning (KIP-101)."""

import pytest

from ottla.storage.checkpoints import EpochStart
from ottla.storage.log.leader_epochs import EpochEnd, LeaderEpochs

EPOCHS = LeaderEpochs([EpochStart(2, 10), EpochStart(4, 25), EpochStart(5, 30)])


@pytest.mark.parametrize(
    ("epoch", "end"), [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 25)), (3, (2, 25)), (4, (4, 30)), (5, (5, 40)), (6, (-1, -1))]
)
def test_an_epoch_ends_where_the_next_began(epoch: int, end: tuple[int, int]) -> None:
    assert EPOCHS.end_offset_for(epoch, 40) == EpochEnd(*end)


def test_the_current_epoch_counts_before_its_first_batch() -> None:
    assert LeaderEpochs().end_offset_for(0, 0) == EpochEnd(0, 0)
    later = LeaderEpochs(EPOCHS.starts, current=7)
    assert later.end_offset_for(5, 40) == EpochEnd(5, 40)
    assert later.end_offset_for(6, 40) == EpochEnd(5, 40)
    assert later.end_offset_for(7, 40) == EpochEnd(7, 40)


def test_the_current_epoch_is_at_least_that_of_the_last_batch() -> None:
    assert LeaderEpochs([EpochStart(3, 0)], current=1).current == 3


@pytest.mark.parametrize(
    ("log_start_offset", "left"),
    [
        (0, [(2, 10), (4, 25), (5, 30)]),
        (10, [(2, 10), (4, 25), (5, 30)]),
        (24, [(2, 24), (4, 25), (5, 30)]),
        (25, [(4, 25), (5, 30)]),
        (99, [(5, 99)]),
    ],
)
def test_the_epoch_that_holds_the_start_stays(log_start_offset: int, left: list[tuple[int, int]]) -> None:
    assert EPOCHS.after_start(log_start_offset) == [EpochStart(*start) for start in left]
