"""What is remembered for Burrow's rules."""

from ottla.broker.monitoring.group_history import GroupHistory
from ottla.history.burrow import Status
from ottla.protocol.coordinator_records import OffsetValue


def value(offset: int, at_ms: int) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=at_ms)


def test_a_consumer_that_falls_behind() -> None:
    history = GroupHistory()
    for at_ms in range(0, 60_000, 10_000):
        status = history.status("g", "t", 0, value(1 + at_ms // 1_000, at_ms), 5 + at_ms // 500, at_ms)
    assert status is Status.WARN
    assert history.status("h", "t", 0, value(500, 0), 125, 60_000) is Status.OK


def test_a_consumer_that_stopped_is_found_when_no_log_end_that_it_had_reached_is_remembered() -> None:
    history = GroupHistory()
    for at_ms in (0, 10_000, 20_000):
        history.status("g", "t", 0, value(at_ms, at_ms), at_ms, at_ms)
    found = [history.status("g", "t", 0, value(20_000, 20_000), at_ms, at_ms) is Status.STOP for at_ms in range(30_000, 140_000, 10_000)]
    assert found == [False] * 9 + [True] * 2


def test_commits_that_follow_each_other_closely_count_as_one() -> None:
    history = GroupHistory()
    for at_ms in range(0, 20_000, 1_000):
        status = history.status("g", "t", 0, value(10, at_ms), 20, at_ms)
    assert status is Status.STALL
    (known,) = history._commits.values()
    assert [commit.at_ms for commit in known.window.commits] == [0, 5_000, 10_000, 15_000]


def test_partitions_that_are_no_longer_listed_are_forgotten() -> None:
    history = GroupHistory()
    history.status("g", "t", 0, value(1, 0), 2, 0)
    history.status("g", "u", 0, value(1, 0), 2, 0)
    history.forget_others()
    history.status("g", "u", 0, value(1, 0), 2, 0)
    history.forget_others()
    assert list(history._commits) == [("g", "u", 0)]
    assert list(history._log_ends) == [("u", 0)]
