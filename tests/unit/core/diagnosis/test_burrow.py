"""Burrow's rules, one by one."""

from collections.abc import Sequence

import pytest

from ottla.core.diagnosis.burrow import Commit, Status, group_status, partition_status

EVERY_MS = 10_000


def commits(*offset_and_lag: tuple[int, int]) -> list[Commit]:
    """Commits every 10 s, the first at 0."""
    return [Commit(offset, at * EVERY_MS, lag) for at, (offset, lag) in enumerate(offset_and_lag)]


@pytest.mark.parametrize(
    ("seen", "log_ends", "lag", "now_ms", "status"),
    [
        pytest.param([(10, 5), (20, 6), (30, 7)], [35], 0, 99_000, Status.OK, id="no lag now"),
        pytest.param([], [35], 5, 99_000, Status.OK, id="nothing known"),
        pytest.param([(10, 5), (20, 5), (30, 5)], [35, 40], 5, 41_000, Status.STOP, id="silent for longer than the window"),
        pytest.param([(10, 5), (20, 4), (30, 3)], [33], 5, 40_000, Status.OK, id="silent for as long as the window"),
        pytest.param([(10, 5), (20, 4), (30, 3)], [30, 40], 5, 41_000, Status.OK, id="it was at the end not long ago"),
        pytest.param([(30, 5), (10, 25), (20, 15)], [35], 15, 21_000, Status.REWIND, id="offsets went back"),
        pytest.param([(30, 5), (10, 25), (40, 15)], [55], 15, 21_000, Status.OK, id="they went back and came again"),
        pytest.param([(10, 5), (10, 9), (10, 14)], [24], 14, 21_000, Status.STALL, id="commits that do not get on"),
        pytest.param([(10, 5), (20, 5), (30, 14)], [44], 14, 21_000, Status.WARN, id="the lag never falls"),
        pytest.param([(10, 5), (20, 4), (30, 14)], [44], 14, 21_000, Status.OK, id="the lag fell once"),
        pytest.param([(10, 0), (20, 4), (30, 14)], [44], 14, 21_000, Status.OK, id="there was no lag once"),
    ],
)
def test_a_partition(seen: Sequence[tuple[int, int]], log_ends: list[int], lag: int, now_ms: int, status: Status) -> None:
    assert partition_status(commits(*seen), log_ends, lag, now_ms) is status


@pytest.mark.parametrize(
    ("partitions", "status"),
    [
        ([], Status.NOTFOUND),
        ([Status.OK, Status.OK], Status.OK),
        ([Status.OK, Status.WARN], Status.WARN),
        ([Status.WARN, Status.STOP, Status.OK], Status.ERR),
        ([Status.REWIND], Status.ERR),
    ],
)
def test_a_group_is_as_ill_as_its_worst_partition(partitions: list[Status], status: Status) -> None:
    assert group_status(partitions) is status
