"""What clients' reasons say about the cause; texts that no client sends leave it open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.client_reasons import (
    ANY_LEAVE,
    ANY_REJOIN,
    NOTHING,
    REMOVED_BEFORE,
    first_join_meaning,
    leave_meaning,
    rejoin_meaning,
)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("the consumer is being closed", Cause.LEAVE_CLOSE),
        ("consumer poll timeout has expired.", Cause.POLL_TIMEOUT),
        ("worker poll timeout has expired.", Cause.POLL_TIMEOUT),
        ("the consumer unsubscribed from all topics", Cause.LEAVE_CLOSE),
        ("member was removed by an admin", Cause.ADMIN),
    ],
)
def test_reasons_of_leaving(reason: str, cause: Cause) -> None:
    assert leave_meaning(reason) == (cause, ())


def test_a_leave_without_a_reason_may_be_several_things() -> None:
    assert leave_meaning("not provided") == leave_meaning("") == ANY_LEAVE
    assert leave_meaning("drain").candidates == (Cause.ADMIN, Cause.LEAVE_CLOSE)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("cached metadata has changed from (version4: {a=1}) at the beginning of the rebalance to (version5: {a=2})", Cause.TOPIC_CHANGE),
        ("subscription has changed from [a] at the beginning of the rebalance to [a, b]", Cause.SUBSCRIPTION),
        ("need to revoke partitions [a-0] as indicated by the current assignment and re-join", Cause.COOP_FOLLOWUP),
        ("rebalance enforced by user", Cause.ENFORCED),
        ("rebalance failed due to CoordinatorLoadInProgressException", Cause.COORDINATOR_MOVE),
        ("rebalance failed due to 'The coordinator is loading.' (CoordinatorLoadInProgressException)", Cause.COORDINATOR_MOVE),
        ("rebalance failed due to class org.apache.kafka.common.errors.FencedInstanceIdException", Cause.STATIC_FENCED),
    ],
)
def test_reasons_of_rejoining(reason: str, cause: Cause) -> None:
    assert rejoin_meaning(reason) == (cause, ())


def test_other_reasons_of_rejoining() -> None:
    assert rejoin_meaning("not provided") == rejoin_meaning("") == ANY_REJOIN
    assert rejoin_meaning("group is already rebalancing") == NOTHING
    assert rejoin_meaning("rebalance failed due to RebalanceInProgressException") == NOTHING
    assert rejoin_meaning("encountered UNKNOWN_MEMBER_ID from HEARTBEAT response") == REMOVED_BEFORE
    assert rejoin_meaning("because I can").candidates == (Cause.ENFORCED, *ANY_REJOIN.candidates)


def test_a_new_member_may_come_back() -> None:
    joins = (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC)
    assert (
        first_join_meaning("not provided").candidates
        == first_join_meaning("need to re-join with the given member-id: m").candidates
        == joins
    )
    assert first_join_meaning("encountered ILLEGAL_GENERATION from SYNC_GROUP response") == REMOVED_BEFORE


def test_what_a_member_measured_narrows_down_why_it_was_removed() -> None:
    removed = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    assert rejoin_meaning(f"{removed} [process stopped: 6000 of 7000 ms without a heartbeat]") == (Cause.EXPIRE_HEARTBEAT, ())
    late = f"{removed} [slow processing: a rebalance waited 6000 ms for the next poll]"
    assert rejoin_meaning(late) == first_join_meaning(late) == (None, (Cause.JOIN_TIMEOUT, Cause.POLL_TIMEOUT))
    left = "consumer pro-actively leaving the group [application blocked: no poll for 6001 ms]"
    assert rejoin_meaning(left) == first_join_meaning(left) == (Cause.POLL_TIMEOUT, ())
    assert rejoin_meaning(f"{removed} [bad weather: 1]") == REMOVED_BEFORE


def test_what_a_member_measured_changes_no_other_meaning() -> None:
    evidence = "[network: no heartbeat answered for 6000 ms]"
    for text in ("need to re-join with the given member-id: m", "group is already rebalancing", "cached metadata has changed"):
        assert rejoin_meaning(f"{text} {evidence}") == rejoin_meaning(text)
    assert leave_meaning("consumer poll timeout has expired. [GIL held: no poll for 6001 ms]") == (Cause.POLL_TIMEOUT, ())


@given(st.text())
def test_any_text_means_one_cause_or_some(reason: str) -> None:
    for meaning in (leave_meaning(reason), rejoin_meaning(reason), first_join_meaning(reason)):
        assert not (meaning.trigger and meaning.candidates)
