from collections.abc import Callable

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.patterns.culprits import Culprit, find_culprit, flapping
from ottla.core.diagnosis.verdicts.verdict import AVOIDED, Verdict

New = Callable[..., Verdict]


def test_the_member_that_caused_most_of_the_last_six(verdict: New) -> None:
    causes = (
        [(Cause.EXPIRE_HEARTBEAT, "w9")] * 5
        + [(Cause.JOIN_NEW, "w2")]
        + [(Cause.EXPIRE_HEARTBEAT, "w2")] * 3
        + [(Cause.POLL_TIMEOUT, "w1")]
    )
    history = [verdict(cause, name, at * 1_000_000) for at, (cause, name) in enumerate(causes)]
    assert find_culprit([*history, verdict(Cause.STATIC_REJOIN, "w3", 0, kind=AVOIDED)]) == Culprit("w2", 3, 6, False)


def test_one_loss_makes_no_culprit(verdict: New) -> None:
    assert find_culprit([verdict(Cause.EXPIRE_HEARTBEAT, "w1", 0), verdict(Cause.JOIN_NEW, None, 1)]) is None


def test_three_losses_within_minutes_are_flapping(verdict: New) -> None:
    assert flapping([verdict(Cause.POLL_TIMEOUT, "w1", at) for at in (0, 60_000, 120_000)]) == {"w1"}
    assert flapping([verdict(Cause.POLL_TIMEOUT, "w1", at) for at in (0, 600_000, 1_200_000)]) == frozenset()
