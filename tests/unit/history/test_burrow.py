"""Burrow's rules, one by one."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.history.burrow import (
    NOT_FOUND,
    BurrowSettings,
    Commit,
    CommitWindow,
    Partition,
    Status,
    evaluate_group,
    evaluate_partition,
    group_status,
    partition_status,
)

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
def test_a_group_is_as_unhealthy_as_its_worst_partition(partitions: list[Status], status: Status) -> None:
    assert group_status(partitions) is status


def literally(commits: Sequence[Commit], log_ends: Sequence[int], lag: int, now_ms: int, allowed_lag: int) -> Status:
    """Burrow's rules in its own words and order, with an index for each of its loops."""
    count = len(commits)
    if lag <= allowed_lag:
        return Status.OK
    is_stopped = now_ms - commits[count - 1].at_ms > commits[count - 1].at_ms - commits[0].at_ms
    if is_stopped and not any(end <= commits[count - 1].offset for end in log_ends):
        return Status.STOP
    for at in range(1, count):
        if commits[at].offset < commits[at - 1].offset:
            if all(commits[later].offset < commits[at - 1].offset for later in range(at + 1, count)):
                return Status.REWIND
            break
    for commit in commits:
        if commit.lag is not None and commit.lag <= allowed_lag:
            return Status.OK
    if all(commits[at].offset == commits[at - 1].offset for at in range(1, count)):
        return Status.STALL
    last: int | None = None
    for commit in commits:
        if commit.lag is not None:
            if last is not None and commit.lag < last:
                return Status.OK
            last = commit.lag
    return Status.WARN


few = st.integers(0, 6)
seen_commits = st.lists(st.tuples(few, few, st.none() | few), min_size=1, max_size=6)


@given(seen_commits, st.lists(few, max_size=4), few, st.integers(0, 30), st.integers(0, 2))
@settings(max_examples=500)
def test_the_rules_are_burrows(seen: list[tuple[int, int, int | None]], log_ends: list[int], lag: int, later_ms: int, allowed: int) -> None:
    at_ms, found = 0, []
    for offset, after_ms, known_lag in seen:
        at_ms += after_ms
        found.append(Commit(offset, at_ms, known_lag))
    assert partition_status(found, log_ends, lag, at_ms + later_ms, allowed) is literally(found, log_ends, lag, at_ms + later_ms, allowed)


def test_a_commit_too_soon_after_the_last_takes_its_place_but_not_its_time() -> None:
    window = CommitWindow(BurrowSettings(intervals=3, min_distance=10))
    for at_s in (0, 4, 8, 12, 21, 22, 40, 50):
        window.add(at_s, at_s * 1000, None)
    assert [(commit.offset, commit.at_ms) for commit in window.commits] == [(22, 22_000), (40, 40_000), (50, 50_000)]


def partition(number: int, *seen: tuple[int, int], log_end: int | None = 50, topic: str = "t") -> Partition:
    return Partition(topic, number, commits(*seen), [log_end or 0], log_end)


def test_a_group_with_its_greatest_lag_and_its_share_of_full_windows() -> None:
    full = [(at, 40 + at) for at in range(10)]
    found = evaluate_group([partition(1, *full), partition(0, (40, 10)), partition(2), partition(3, (60, 0))], 95_000)
    assert (found.status, found.complete, found.total_lag) == (Status.ERR, 0.25, 51)
    assert found.maxlag is not None
    assert (found.maxlag.partition, found.maxlag.current_lag, found.maxlag.complete) == (1, 41, 1.0)
    assert [(each.partition, each.status, each.complete) for each in found.partitions] == [
        (0, Status.STOP, 0.1),
        (1, Status.WARN, 1.0),
        (2, Status.OK, 0.0),
        (3, Status.OK, 0.1),
    ]


def test_a_window_that_is_not_full_enough_is_ok() -> None:
    known = partition(0, (10, 5), (10, 6))
    assert evaluate_partition(known, 15_000).status is Status.STALL
    assert evaluate_partition(known, 15_000, BurrowSettings(minimum_complete=0.3)).status is Status.OK
    assert evaluate_partition(known, 15_000, BurrowSettings(minimum_complete=0.2)).status is Status.STALL
    assert evaluate_partition(known, 15_000, BurrowSettings(allowed_lag=40)).status is Status.OK


def test_a_group_without_commits_for_long_or_at_all_is_not_found() -> None:
    assert evaluate_group([], 0) is NOT_FOUND
    assert evaluate_group([partition(0)], 0) is NOT_FOUND
    assert evaluate_group([partition(0, (1, 1))], 604_800_000).status is Status.ERR
    assert evaluate_group([partition(0, (1, 1))], 604_800_001) is NOT_FOUND


def test_a_deleted_topic_has_no_lag() -> None:
    assert evaluate_partition(partition(0, (1, 1), log_end=None), 99_000).current_lag == 0


def test_settings_by_burrows_names() -> None:
    texts = {"intervals": "15", "min-distance": "1", "expire-group": "60", "minimum-complete": "0.5", "allowed-lag": "3"}
    assert BurrowSettings.parse(texts) == BurrowSettings(intervals=15, min_distance=1, expire_group=60, minimum_complete=0.5, allowed_lag=3)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("interval", "1", "there is no setting interval; there are intervals, min-distance,"),
        ("intervals", "many", "intervals=many: it takes a number"),
        ("intervals", "0", "at least one commit"),
        ("minimum-complete", "nan", "a share from 0 to 1"),
        ("allowed-lag", "-1", "not negative"),
    ],
)
def test_a_wrong_setting_is_said(name: str, value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BurrowSettings.parse({name: value})
