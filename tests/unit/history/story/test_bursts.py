from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.summary import GAP_MS, DeploymentSpan, bursts


def rebalance(started_ms: int, *, planned: bool = False) -> StoryRebalance:
    return StoryRebalance(started_ms=started_ms, join_ms=1_000, planned=planned, stopped=4, stopped_ms=500)


NEAR = [rebalance(1_000_000 + at * GAP_MS) for at in range(3)]


def test_rebalances_near_each_other_are_a_burst_with_its_cost() -> None:
    [burst] = bursts([rebalance(0), *NEAR, rebalance(9_000_000)])
    assert (burst.from_ms, burst.to_ms, burst.unplanned, burst.is_deployment) == (1_000_000, 1_000_000 + 2 * GAP_MS + 1_000, 3, False)
    assert burst.sentence == "A burst: 3 rebalances in 4 min 1 s, 3 of them not planned, 6 partition-seconds stopped."


def test_a_deployment_is_named_and_is_no_burst_too() -> None:
    span = DeploymentSpan(1_000_000, 1_300_000, 2, 3, 6.0)
    [found] = bursts([rebalance(0), *NEAR], [span])
    assert found.is_deployment
    assert found.sentence == "A rolling deployment of 2 clients: 3 rebalances in 5 min, 6 partition-seconds stopped."
    assert bursts([], [span._replace(stopped_seconds=None)])[0].sentence.endswith("3 rebalances in 5 min.")


def test_what_holds_everything_or_little_says_nothing_new() -> None:
    assert bursts([]) == []
    assert bursts(NEAR) == []
    assert bursts([rebalance(0), *NEAR[:2]]) == []
