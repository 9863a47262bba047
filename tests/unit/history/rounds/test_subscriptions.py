import pytest

from ottla.history.rounds.identity import Identity
from ottla.history.rounds.round import Arrival, Membership, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.rounds.subscriptions import PATTERN_WITHIN_MS, note_resubscribed, topics_resubscribed
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog

BEFORE, AFTER = (Membership({}, "range", frozenset(topics), True) for topics in ("t", "tu"))


def rebalance(at_ms: int, member_id: str = "m", **evidence: int) -> Round:
    log = EvidenceLog(now_ms=at_ms)
    log.add(Kind.TRIGGER, member_id=member_id, evidence=evidence)
    part = Part(clock="broker-log", source=Source.GROUP_EVENTS, stage=Stage.ENDED, items=log.lines)
    return Round(group="g", generation=1, parts=[part])


def test_a_member_says_that_it_subscribes_to_other_topics() -> None:
    assert topics_resubscribed(rebalance(0, topics_added=0, topics_removed=1))
    assert not topics_resubscribed(rebalance(0, topics_added=0, topics_removed=0))


@pytest.mark.parametrize(("count", "is_resubscribed"), [(0, False), (1, True)])
def test_a_count_of_members_says_more_than_a_list_of_topics(count: int, is_resubscribed: bool) -> None:
    each = rebalance(0, members_resubscribed=count)
    each.before, each.after = BEFORE, AFTER
    assert topics_resubscribed(each) is is_resubscribed


def test_lists_of_topics_are_compared_where_nothing_else_is_known() -> None:
    each = rebalance(0)
    each.before, each.after = BEFORE, AFTER
    assert topics_resubscribed(each)


def test_members_that_see_a_new_topic_one_after_the_other_are_taken_together() -> None:
    rounds = [rebalance(0, "a", topics_added=1), rebalance(20_000, "b", topics_added=1), rebalance(21_000, "c")]
    note_resubscribed(rounds)
    assert [sorted(each.resubscribed) for each in rounds] == [["a", "b"], ["a", "b"], []]


@pytest.mark.parametrize("after_ms", [PATTERN_WITHIN_MS + 1, 1_000])
def test_they_are_not_if_it_is_long_after_or_members_came(after_ms: int) -> None:
    rounds = [rebalance(0, "a", topics_added=1), rebalance(after_ms, "b", topics_added=1)]
    if after_ms < PATTERN_WITHIN_MS:
        rounds[1].arrivals.append(Arrival(who=Identity("b"), at_ms=after_ms, clock="broker-log"))
    note_resubscribed(rounds)
    assert [sorted(each.resubscribed) for each in rounds] == [["a"], ["b"]]
