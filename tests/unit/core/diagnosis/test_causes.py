"""Planned or not, from the triggers alone, and the cases that cannot be distinguished."""

import pytest

from ottla.core.diagnosis.causes import (
    EXPLAINED_BY_NEW_PARTITIONS,
    HIGH,
    LOST,
    LOW,
    MEDIUM,
    RETURN_WITHIN_MS,
    UNKNOWN,
    VERDICTS,
    Verdict,
    judge_rebalance,
    judge_triggers,
)
from ottla.core.groups.events import Cause
from ottla.core.model import GroupEvent

PLANNED, UNPLANNED = Verdict(True, HIGH), Verdict(False, HIGH)
RETURNED = Verdict(False, LOW)


def _trigger(code: str, at_ms: int = 0, client: str | None = "a", host: str | None = "/h", client_reason: str | None = None) -> GroupEvent:
    return GroupEvent(
        at_ms=at_ms, group="g", kind="trigger", generation=1, state_from="Stable", state_to="PreparingRebalance", trigger=code,
        client_id=client, client_host=host, client_reason=client_reason,
    )  # fmt: skip


def test_a_lost_member_is_unplanned_and_a_new_one_is_planned():
    codes = ["JOIN_NEW", "EXPIRE_HEARTBEAT", "POLL_TIMEOUT", "JOIN_TIMEOUT", "SYNC_TIMEOUT", "ADMIN_REMOVE", "ASSIGNOR_CHANGE"]
    verdicts = judge_triggers([_trigger(code, client=code) for code in codes])
    assert verdicts == [PLANNED, UNPLANNED, UNPLANNED, UNPLANNED, UNPLANNED, PLANNED, PLANNED]


def test_a_leave_may_be_a_close_or_a_poll_timeout():
    assert judge_triggers([_trigger("LEAVE")]) == [Verdict(True, MEDIUM)]


def test_a_leave_with_a_reason_is_what_it_says():
    leave = _trigger("LEAVE", client_reason="the consumer is being closed")
    assert judge_triggers([leave]) == [PLANNED]
    assert judge_triggers([leave, _trigger("JOIN_NEW", 1)]) == [RETURNED, RETURNED]


def test_a_leave_whose_client_comes_back_was_not_planned_and_neither_was_its_return():
    assert judge_triggers([_trigger("LEAVE"), _trigger("JOIN_NEW", RETURN_WITHIN_MS)]) == [RETURNED, RETURNED]
    late = [_trigger("LEAVE"), _trigger("JOIN_NEW", RETURN_WITHIN_MS + 1)]
    assert judge_triggers(late) == [Verdict(True, MEDIUM), PLANNED]


@pytest.mark.parametrize("code", sorted(LOST - {"LEAVE"}))
def test_the_return_of_a_lost_member_is_not_planned(code: str):
    assert judge_triggers([_trigger(code), _trigger("JOIN_NEW", 10)]) == [UNPLANNED, RETURNED]


def test_another_client_or_host_is_no_return():
    triggers = [_trigger("LEAVE"), _trigger("JOIN_NEW", 1, client="b"), _trigger("JOIN_NEW", 1, host="/other")]
    assert judge_triggers(triggers) == [Verdict(True, MEDIUM), PLANNED, PLANNED]


def test_ids_that_never_joined_have_no_client():
    triggers = [_trigger("LEAVE", client=None, host=None), _trigger("JOIN_NEW", client=None, host=None)]
    assert judge_triggers(triggers) == [Verdict(True, MEDIUM), PLANNED]


def test_a_client_that_had_joined_before_it_left_is_no_return():
    assert judge_triggers([_trigger("JOIN_NEW"), _trigger("LEAVE", 10)]) == [PLANNED, Verdict(True, MEDIUM)]


def test_codes_of_a_later_version_are_not_judged():
    assert judge_triggers([_trigger("MOON_PHASE")]) == [UNKNOWN]


@pytest.mark.parametrize(
    ("triggers", "expected"),
    [
        ([], UNKNOWN),
        ([("JOIN_NEW", PLANNED)], PLANNED),
        ([("JOIN_NEW", PLANNED), ("LEAVE", Verdict(True, MEDIUM))], Verdict(True, MEDIUM)),
        ([("JOIN_NEW", PLANNED), ("EXPIRE_HEARTBEAT", UNPLANNED)], UNPLANNED),
        ([("JOIN_NEW", RETURNED), ("EXPIRE_HEARTBEAT", UNPLANNED)], UNPLANNED),
        ([("JOIN_NEW", PLANNED), ("MOON_PHASE", UNKNOWN)], UNKNOWN),
        ([("MOON_PHASE", UNKNOWN), ("LEAVE", RETURNED)], RETURNED),
    ],
)
def test_an_unplanned_trigger_decides_a_rebalance(triggers: list[tuple[str, Verdict]], expected: Verdict):
    assert judge_rebalance(triggers, has_new_partitions=False) == expected


@pytest.mark.parametrize("code", sorted(EXPLAINED_BY_NEW_PARTITIONS))
def test_new_partitions_explain_a_rejoin(code: str):
    assert judge_rebalance([(code, VERDICTS[code])], has_new_partitions=False) == Verdict(True, LOW)
    assert judge_rebalance([(code, VERDICTS[code])], has_new_partitions=True) == PLANNED
    assert judge_rebalance([("JOIN_NEW", RETURNED)], has_new_partitions=True) == RETURNED


def test_every_cause_that_the_coordinator_names_is_judged():
    assert set(VERDICTS) == {cause.value for cause in Cause}
