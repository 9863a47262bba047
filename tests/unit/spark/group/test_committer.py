"""Commits to the group and their times, without a broker and with a clock of the test."""

import logging
import pickle
from collections.abc import Iterator, Mapping

import pytest

from ottla.client.admin.values import Failure
from ottla.client.errors import BrokerUnavailableError
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.group.committer import (
    BACKOFF_MS,
    BACKOFF_MS_MAX,
    COMMIT_MS_MAX,
    CONFIRM_MS,
    LAST_COMMIT_MS_MAX,
    REFRESH_MS,
    CommitSchedule,
    GroupCommitter,
    Results,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOADING = Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _commit(
    schedule: CommitSchedule, offsets: Mapping[TopicPartition, int], now_ms: int, is_last: bool = False, **failures: Failure
) -> object:
    """One offer; returns the committed offsets. `failures` by the name of the partition, "A" or "B"."""
    asked = schedule.due(offsets, now_ms, is_last=is_last)
    if asked:
        schedule.record_results(asked, {{"A": A, "B": B}[name]: failure for name, failure in failures.items()}, now_ms)
    return asked


def test_only_what_changed_is_committed_and_all_of_it_the_first_time():
    schedule = CommitSchedule()
    assert _commit(schedule, {A: 5, B: 7}, 0) == {A: 5, B: 7}
    assert _commit(schedule, {A: 5, B: 7}, 1) == {}
    assert _commit(schedule, {A: 6, B: 7}, 2) == {A: 6}
    assert (schedule.commits, schedule.failures) == (2, 0)


def test_where_a_new_query_starts_is_not_committed_until_something_was_processed():
    schedule = CommitSchedule()
    schedule.begin({A: 5, B: 7})
    assert _commit(schedule, {A: 5, B: 7}, 0) == {}
    # Then all of it is: a partition without records shows a lag of 0, as with a consumer, and not none at all.
    assert _commit(schedule, {A: 6, B: 7}, 1) == {A: 6, B: 7}
    # The query itself came back there (its topic was re-created): now it is processed.
    assert _commit(schedule, {A: 5, B: 7}, 2) == {A: 5}


def test_a_stream_that_goes_back_commits_lower_offsets():
    schedule = CommitSchedule()
    _commit(schedule, {A: 5}, 0)
    assert _commit(schedule, {A: 0}, 1) == {A: 0}


def test_new_partitions_are_committed_and_missing_ones_are_not():
    schedule = CommitSchedule()
    _commit(schedule, {A: 5}, 0)
    assert _commit(schedule, {A: 5, B: 1}, 1) == {B: 1}
    assert _commit(schedule, {B: 2}, 2) == {B: 2}


def test_failures_back_off_and_then_commit_the_newest_offer():
    schedule = CommitSchedule()
    now_ms, pause_ms = 0, BACKOFF_MS
    for offset in range(10):
        assert _commit(schedule, {A: offset}, now_ms, A=LOADING) == {A: offset}
        assert _commit(schedule, {A: offset + 1}, now_ms + pause_ms - 1) == {}
        now_ms += pause_ms
        pause_ms = min(2 * pause_ms, BACKOFF_MS_MAX)
    assert schedule.failures_in_row == schedule.failures == 10
    assert _commit(schedule, {A: 10}, now_ms) == {A: 10}
    assert (schedule.failures_in_row, schedule.failures, schedule.commits) == (0, 10, 1)
    # A failed request may arrive late, after a later one: commit once more, soon.
    assert _commit(schedule, {A: 10}, now_ms + CONFIRM_MS - 1) == {}
    assert _commit(schedule, {A: 10}, now_ms + CONFIRM_MS) == {A: 10}
    assert _commit(schedule, {A: 10}, now_ms + 2 * CONFIRM_MS) == {}


def test_the_last_offer_does_not_wait_for_a_back_off():
    schedule = CommitSchedule()
    _commit(schedule, {A: 1}, 0, A=LOADING)
    assert _commit(schedule, {A: 2}, 1) == {}
    assert _commit(schedule, {A: 2}, 2, is_last=True) == {A: 2}


def test_a_failed_partition_does_not_delay_others():
    schedule = CommitSchedule()
    assert _commit(schedule, {A: 1, B: 1}, 0, B=Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) == {A: 1, B: 1}
    assert _commit(schedule, {A: 2, B: 1}, BACKOFF_MS) == {A: 2, B: 1}
    assert (schedule.commits, schedule.failures) == (1, 1)


def test_the_last_offer_after_a_partial_failure_repeats_what_failed_alone():
    schedule = CommitSchedule()
    _commit(schedule, {A: 1, B: 1}, 0)
    assert _commit(schedule, {A: 2, B: 2}, 1, B=LOADING) == {A: 2, B: 2}
    assert _commit(schedule, {A: 2, B: 2}, 2) == {}  # backs off
    assert _commit(schedule, {A: 2, B: 2}, 2, is_last=True) == {B: 2}


def test_an_idle_stream_repeats_its_commit_because_offsets_expire():
    schedule = CommitSchedule()
    _commit(schedule, {A: 1, B: 1}, 0)
    assert _commit(schedule, {A: 1, B: 1}, REFRESH_MS - 1) == {}
    assert _commit(schedule, {A: 1, B: 1}, REFRESH_MS) == {A: 1, B: 1}
    assert _commit(schedule, {A: 1, B: 1}, REFRESH_MS + 1) == {}


class Coordinator:
    """Scripted results of commits, and a clock; records the requests."""

    def __init__(self) -> None:
        self.answers: list[Results | Exception] = []
        self.asked: list[tuple[Mapping[TopicPartition, int], int]] = []
        self.seconds = 0.0

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> Results:
        self.asked.append((offsets, timeout_ms))
        answer = self.answers.pop(0) if self.answers else dict.fromkeys(offsets)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def clock(self) -> float:
        return self.seconds


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def committer(coordinator: Coordinator) -> Iterator[GroupCommitter]:
    settings = ClientSettings(bootstrap_servers="127.0.0.1:1")
    made = GroupCommitter(settings, "g", commit=coordinator.commit, clock=coordinator.clock)
    yield made
    made.close()


def test_failures_of_every_kind_are_counted_logged_and_end(
    coordinator: Coordinator, committer: GroupCommitter, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "ottla.spark")
    coordinator.answers = [
        BrokerUnavailableError("no connection"),
        Failure(ErrorCode.UNKNOWN_MEMBER_ID),
        {A: None, B: Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)},
        {A: None},
    ]
    errors = []
    for number in range(5):
        committer.offer({A: number, B: number})
        errors.append(committer.metrics()["last_error"])
        coordinator.seconds += BACKOFF_MS_MAX / 1000
    assert errors[0] == "t-0: BrokerUnavailableError: no connection"
    assert str(errors[1]).startswith("the group g has members, and accepts offsets from them only")
    assert errors[2] == "t-1: UNKNOWN_TOPIC_OR_PARTITION"
    assert errors[3] == errors[4] == "t-1: the coordinator did not answer for it"
    assert committer.metrics() == {"group": "g", "commits": 1, "failures": 4, "failures_in_row": 0, "last_error": errors[4]}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        *4 * ["offsets were not committed to the group g; the query continues"],
        "offsets are committed to the group g again",
    ]


def test_the_same_failure_is_logged_once(coordinator: Coordinator, committer: GroupCommitter, caplog: pytest.LogCaptureFixture):
    coordinator.answers = [LOADING] * 3
    for number in range(3):
        committer.offer({A: number})
        coordinator.seconds += BACKOFF_MS_MAX / 1000
    assert committer.metrics()["failures"] == 3
    assert len(caplog.records) == 1


def test_only_the_last_commit_has_a_long_timeout(coordinator: Coordinator, committer: GroupCommitter, caplog: pytest.LogCaptureFixture):
    committer.begin({A: 0})
    committer.offer({A: 0}, is_last=True)
    committer.offer({A: 1})
    committer.offer({A: 2}, is_last=True)
    assert coordinator.asked == [({A: 1}, COMMIT_MS_MAX), ({A: 2}, LAST_COMMIT_MS_MAX)]
    assert caplog.records == [], "nothing had failed"


def test_the_last_commit_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch):
    timeouts = []

    class Admin:
        def __init__(self, settings: ClientSettings) -> None:
            timeouts.append(settings.default_api_timeout_ms)

        def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> Results:
            assert group == "g"
            return dict.fromkeys(offsets)

        def close(self) -> None:
            timeouts.append(0)

    monkeypatch.setattr("ottla.spark.group.committer.AdminClient", Admin)
    committer = GroupCommitter(ClientSettings(bootstrap_servers="127.0.0.1:1"), "g")
    for number in range(3):
        committer.offer({A: number}, is_last=number == 2)
    committer.close()
    assert timeouts == [COMMIT_MS_MAX, 0, LAST_COMMIT_MS_MAX, 0]
    assert committer.metrics()["commits"] == 3


def test_the_coordinator_is_called_and_no_broker_is_no_exception():
    committer = GroupCommitter(ClientSettings(bootstrap_servers="127.0.0.1:1"), "g")
    copy = pickle.loads(pickle.dumps(committer))  # the reader that has one travels to the planner
    copy.offer({A: 1})
    assert copy.metrics()["failures"] == 1
    assert "127.0.0.1:1" in str(copy.metrics()["last_error"])
    copy.close()
