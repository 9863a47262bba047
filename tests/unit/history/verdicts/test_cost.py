import pytest

from ottla.history.owners import AssignmentDiff
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Membership, Round
from ottla.history.sources.model import CommitSpan
from ottla.history.verdicts.cost import cost_of
from ottla.history.verdicts.verdict import Cost
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog

DIFF = AssignmentDiff(assigned=10, moved=2, new=0, gone=1, regained=0, kept=7)


def a_round(protocol: str) -> Round:
    log = EvidenceLog()
    log.join("a", 1)
    log.rebalance(2)
    (each,) = merge("g", by_clock(log.lines))
    each.change, each.after = DIFF, Membership({}, protocol, None, True)
    return each


@pytest.mark.parametrize(("protocol", "stopped"), [("range", 10), ("cooperative-sticky", 3)])
def test_an_eager_assignor_stops_every_partition_for_the_time_of_the_rebalance(protocol: str, stopped: int) -> None:
    assert cost_of(a_round(protocol)) == Cost(stopped, stopped * 0.12, 2)


def test_messages_that_are_read_again() -> None:
    each, partition = a_round("range"), TopicPartition("t", 0)
    each.commits = {partition: CommitSpan(0, 9, 10, 90, 5)}
    each.commits_after = {partition: CommitSpan(20, 29, 70, 95, 5)}
    assert cost_of(each).reread_messages == 20


def test_messages_that_came_in_meanwhile_by_the_rate_of_commits() -> None:
    each = a_round("range")
    each.commits = {TopicPartition("t", 0): CommitSpan(0, 1_000, 0, 500, 5), TopicPartition("t", 1): CommitSpan(7, 7, 0, 0, 1)}
    assert cost_of(each).waiting_messages == 60


def test_nothing_known_costs_nothing_known() -> None:
    each = a_round("range")
    each.change = None
    assert cost_of(each) == Cost()
    each.is_avoided = True
    assert cost_of(each).stopped_partition_seconds == 0.0
