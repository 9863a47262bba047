"""What is tried again, how often, and that what was known is forgotten in between."""

import pytest

from ottla.consumer.errors import BrokerUnavailableError, ClientError, RequestFailedError, UnknownTopicError
from ottla.consumer.patience import ATTEMPTS_MAX, PAUSE_MS, RETRIABLE, Patience, patiently
from ottla.core.errors import ErrorCode


class FakeCluster:
    def __init__(self) -> None:
        self.forgotten = 0

    def forget(self) -> None:
        self.forgotten += 1


def _failing(*errors: Exception):
    left = list(errors)

    def action() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return action


GONE = BrokerUnavailableError("gone")
MOVED = RequestFailedError("moved", ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_what_may_pass_is_tried_again_after_a_pause():
    cluster, pauses = FakeCluster(), []
    assert patiently(cluster, _failing(GONE, MOVED, GONE), pauses.append) == "done"
    assert (cluster.forgotten, pauses) == (3, [PAUSE_MS / 1000] * 3)


def test_but_not_for_ever():
    pauses = []
    with pytest.raises(BrokerUnavailableError):
        patiently(FakeCluster(), _failing(*[GONE] * ATTEMPTS_MAX), pauses.append)
    assert len(pauses) == ATTEMPTS_MAX - 1


@pytest.mark.parametrize("error", [UnknownTopicError("no such topic"), RequestFailedError("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
def test_what_will_not_pass_is_raised_at_once(error: ClientError):
    pauses = []
    with pytest.raises(type(error)):
        patiently(FakeCluster(), _failing(error), pauses.append)
    assert pauses == []


def test_progress_starts_the_count_anew():
    patience = Patience(FakeCluster(), lambda seconds: None)
    for _ in range(3 * ATTEMPTS_MAX):
        patience.bear(GONE)
        patience.progress()


def test_errors_that_lookups_heal_are_retriable():
    assert {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER} <= RETRIABLE
    assert not {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE} & RETRIABLE
