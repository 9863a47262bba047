"""Evidence in brackets behind the reasons of JoinGroup and LeaveGroup."""

import pytest

from ottla.groups.reason_evidence import REASON_LETTERS_MAX, MemberCause, evidence_in, evidence_text, with_evidence

EXPIRED = "consumer poll timeout has expired."


def test_javas_text_comes_first_and_unchanged() -> None:
    reason = with_evidence(EXPIRED, "slow processing: no poll for 6001 ms")
    assert reason == "consumer poll timeout has expired. [slow processing: no poll for 6001 ms]"
    assert evidence_in(reason) is MemberCause.SLOW_PROCESSING
    assert evidence_text(reason) == "slow processing: no poll for 6001 ms"
    assert with_evidence(EXPIRED, "") == EXPIRED


@pytest.mark.parametrize("cause", MemberCause)
def test_every_cause_is_read_back_also_when_the_reason_is_cut_off(cause: MemberCause) -> None:
    reason = with_evidence(EXPIRED, f"{cause}: {'1' * 300}")
    assert len(reason) == REASON_LETTERS_MAX
    assert evidence_in(reason) is cause


@pytest.mark.parametrize("reason", ["", EXPIRED, "an administrator's text [network]", "[weather: rain]", "[network: 1] and more"])
def test_other_brackets_are_no_evidence(reason: str) -> None:
    assert evidence_in(reason) is None
    assert evidence_text(reason) == ""
