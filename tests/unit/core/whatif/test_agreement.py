from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.whatif.agreement import Agreement, agreement
from ottla.core.whatif.outcome import Outcome, ReplayedRebalance


def replayed(*times_ms: int) -> Outcome:
    rebalances = tuple(
        ReplayedRebalance(at_ms=at_ms, generation=1, cause=Cause.JOIN_NEW, process="a", planned=True, keys=frozenset())
        for at_ms in times_ms
    )
    return Outcome(rebalances=rebalances, avoided=(), stopped_ms=0, waiting_ms=0)


def test_each_recorded_rebalance_is_matched_once() -> None:
    found = agreement([0, 10_000, 20_000, 60_000], replayed(500, 9_000, 30_000, 61_000, 90_000))
    assert found == Agreement(4, 3, (20_000,), (30_000, 90_000))
    assert not found.is_complete


def test_nothing_agrees_with_nothing() -> None:
    assert agreement([], replayed()).is_complete
