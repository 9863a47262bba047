from ottla.history.sources.cause_codes import Cause
from ottla.history.verdicts.policy import LOSSES, POLICIES


def test_every_cause_has_a_policy() -> None:
    assert set(POLICIES) == set(Cause)


def test_the_two_classes_of_unnecessary_rebalances() -> None:
    assert {cause: policy.rebalance_class for cause, policy in POLICIES.items() if policy.rebalance_class} == {
        Cause.EXPIRE_HEARTBEAT: 1,
        Cause.POLL_TIMEOUT: 2,
    }


def test_no_lost_member_was_planned() -> None:
    assert all(POLICIES[cause].planned is False for cause in LOSSES)
