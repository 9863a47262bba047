"""What is committed to the group, and when: decided without a broker and with a clock that the tests turn."""

import logging
import pickle
from collections.abc import Iterator, Mapping

import pytest

from ottla.consumer.admin.values import Failure
from ottla.consumer.errors import BrokerUnavailableError
from ottla.consumer.settings import ClientSettings
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.group_commit import (
    BACKOFF_MS,
    BACKOFF_MS_MAX,
    COMMIT_MS_MAX,
    CONFIRM_MS,
    LAST_COMMIT_MS_MAX,
    REFRESH_MS,
    CommitPlan,
    GroupCommitter,
    Results,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOADING = Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _commit(plan: CommitPlan, offsets: Mapping[TopicPartition, int], now_ms: int, is_last: bool = False, **failures: Failure) -> object:
    """One offer; gives what was committed. `failures` by the name of the partition, "A" or "B"."""
    asked = plan.due(offsets, now_ms, is_last=is_last)
    if asked:
        plan.settle(asked, {{"A": A, "B": B}[name]: failure for name, failure in failures.items()}, now_ms)
    return asked


def test_only_what_changed_is_committed_and_all_of_it_the_first_time():
    plan = CommitPlan()
    assert _commit(plan, {A: 5, B: 7}, 0) == {A: 5, B: 7}
    assert _commit(plan, {A: 5, B: 7}, 1) == {}
    assert _commit(plan, {A: 6, B: 7}, 2) == {A: 6}
    assert (plan.commits, plan.failures) == (2, 0)


def test_where_a_new_query_starts_is_not_committed_until_something_was_processed():
    plan = CommitPlan()
    plan.begin({A: 5, B: 7})
    assert _commit(plan, {A: 5, B: 7}, 0) == {}
    # Then all of it is: a partition without records shows a lag of 0, as with a consumer, and not none at all.
    assert _commit(plan, {A: 6, B: 7}, 1) == {A: 6, B: 7}
    # The query itself came back there (a topic made anew): now it is what was processed.
    assert _commit(plan, {A: 5, B: 7}, 2) == {A: 5}


def test_a_stream_that_went_back_takes_the_group_back():
    plan = CommitPlan()
    _commit(plan, {A: 5}, 0)
    assert _commit(plan, {A: 0}, 1) == {A: 0}


def test_new_partitions_come_along_and_vanished_ones_are_left_alone():
    plan = CommitPlan()
    _commit(plan, {A: 5}, 0)
    assert _commit(plan, {A: 5, B: 1}, 1) == {B: 1}
    assert _commit(plan, {B: 2}, 2) == {B: 2}


def test_after_a_failure_it_pauses_longer_each_time_and_then_takes_the_newest_offer():
    plan = CommitPlan()
    now_ms, pause_ms = 0, BACKOFF_MS
    for offset in range(10):
        assert _commit(plan, {A: offset}, now_ms, A=LOADING) == {A: offset}
        assert _commit(plan, {A: offset + 1}, now_ms + pause_ms - 1) == {}
        now_ms += pause_ms
        pause_ms = min(2 * pause_ms, BACKOFF_MS_MAX)
    assert plan.failures_in_row == plan.failures == 10
    assert _commit(plan, {A: 10}, now_ms) == {A: 10}
    assert (plan.failures_in_row, plan.failures, plan.commits) == (0, 10, 1)
    # What failed may arrive late, after what was granted: once more, soon, and then no more.
    assert _commit(plan, {A: 10}, now_ms + CONFIRM_MS - 1) == {}
    assert _commit(plan, {A: 10}, now_ms + CONFIRM_MS) == {A: 10}
    assert _commit(plan, {A: 10}, now_ms + 2 * CONFIRM_MS) == {}


def test_the_last_offer_waits_for_no_pause():
    plan = CommitPlan()
    _commit(plan, {A: 1}, 0, A=LOADING)
    assert _commit(plan, {A: 2}, 1) == {}
    assert _commit(plan, {A: 2}, 2, is_last=True) == {A: 2}


def test_a_partition_that_fails_alone_keeps_no_other_back():
    plan = CommitPlan()
    assert _commit(plan, {A: 1, B: 1}, 0, B=Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) == {A: 1, B: 1}
    assert _commit(plan, {A: 2, B: 1}, BACKOFF_MS) == {A: 2, B: 1}
    assert (plan.commits, plan.failures) == (1, 1)


def test_an_idle_stream_commits_anew_now_and_then_because_offsets_expire():
    plan = CommitPlan()
    _commit(plan, {A: 1, B: 1}, 0)
    assert _commit(plan, {A: 1, B: 1}, REFRESH_MS - 1) == {}
    assert _commit(plan, {A: 1, B: 1}, REFRESH_MS) == {A: 1, B: 1}
    assert _commit(plan, {A: 1, B: 1}, REFRESH_MS + 1) == {}


class Coordinator:
    """Answers commits as it is told, and remembers them; a clock beside."""

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


def test_trouble_of_every_kind_is_counted_told_and_over_when_it_is_over(
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
    assert str(errors[1]).startswith("the group g has members, and takes offsets from nobody else")
    assert errors[2] == "t-1: UNKNOWN_TOPIC_OR_PARTITION"
    assert errors[3] == errors[4] == "t-1: the coordinator did not answer for it"
    assert committer.metrics() == {"group": "g", "commits": 1, "failures": 4, "failures_in_row": 0, "last_error": errors[4]}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        *4 * ["offsets were not committed to the group g, which the query survives"],
        "offsets are committed to the group g again",
    ]


def test_the_same_trouble_is_logged_once(coordinator: Coordinator, committer: GroupCommitter, caplog: pytest.LogCaptureFixture):
    coordinator.answers = [LOADING] * 3
    for number in range(3):
        committer.offer({A: number})
        coordinator.seconds += BACKOFF_MS_MAX / 1000
    assert committer.metrics()["failures"] == 3
    assert len(caplog.records) == 1


def test_only_the_last_commit_may_take_its_time(coordinator: Coordinator, committer: GroupCommitter):
    committer.begin({A: 0})
    committer.offer({A: 0}, is_last=True)
    committer.offer({A: 1})
    committer.offer({A: 2}, is_last=True)
    assert coordinator.asked == [({A: 1}, COMMIT_MS_MAX), ({A: 2}, LAST_COMMIT_MS_MAX)]


def test_the_coordinator_is_really_asked_and_nobody_home_is_no_exception():
    committer = GroupCommitter(ClientSettings(bootstrap_servers="127.0.0.1:1"), "g")
    copy = pickle.loads(pickle.dumps(committer))  # the reader that has one travels to the planner
    copy.offer({A: 1})
    assert copy.metrics()["failures"] == 1
    assert "127.0.0.1:1" in str(copy.metrics()["last_error"])
    copy.close()
