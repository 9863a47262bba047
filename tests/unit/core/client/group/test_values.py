"""Values of group membership."""

import pytest

from ottla.core.client.group.values import FindCoordinator, GroupSettings


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupRequestTimeout",
    "AbstractCoordinatorTest.testJoinGroupRequestTimeoutLowerBoundedByDefaultRequestTimeout",
    "AbstractCoordinatorTest.testJoinGroupRequestMaxTimeout",
)
def test_a_join_may_take_as_long_as_the_rebalance() -> None:
    assert GroupSettings(group_id="g", max_poll_interval_ms=300_000).join_timeout_ms == 305_000
    assert GroupSettings(group_id="g", max_poll_interval_ms=10_000, request_timeout_ms=30_000).join_timeout_ms == 30_000


def test_two_requests_are_never_the_same() -> None:
    assert FindCoordinator("g") != FindCoordinator("g"), "each has its own response"


def test_the_rebalance_timeout_is_the_poll_interval_unless_it_is_set() -> None:
    assert GroupSettings(group_id="g", max_poll_interval_ms=7_000).longest_rebalance_ms == 7_000
    assert GroupSettings(group_id="g", max_poll_interval_ms=7_000, rebalance_timeout_ms=0).longest_rebalance_ms == 0
