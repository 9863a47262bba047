from dataclasses import replace

import pytest

from ottla.history.owners import AssignmentDiff
from ottla.history.rounds.round import Membership, Previous, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.model import Source
from ottla.history.verdicts import change_conditions as conditions
from tests.support.kit.evidence import EvidenceLog, member

SAME = AssignmentDiff(assigned=1, moved=0, new=0, gone=0, regained=0, kept=1)


def rejoin(since_move_ms: int | None = None) -> Round:
    log = EvidenceLog()
    log.rejoin("a-id", 4)
    part = Part(clock="broker-log", source=Source.BROKER_LOG, stage=Stage.ENDED, items=log.lines)
    return Round(group="g", generation=5, parts=[part], since_move_ms=since_move_ms)


@pytest.mark.parametrize(("age_ms", "is_moved"), [(None, False), (500, True), (conditions.MOVED_WITHIN_MS + 1, False)])
def test_a_coordinator_moved_if_it_loaded_the_group_just_before(age_ms: int | None, is_moved: bool) -> None:
    assert conditions.is_coordinator_moved(rejoin(age_ms)) is is_moved


def test_another_assignor_is_one_of_a_group_that_had_members() -> None:
    each = rejoin()
    each.protocol_before, each.protocol_after, each.count_before = "range", "roundrobin", 2
    assert conditions.is_protocol_changed(each)
    each.count_before = 0
    assert not conditions.is_protocol_changed(each)


def test_partitions_of_a_topic_that_members_have_just_subscribed_to_are_no_change_of_topics() -> None:
    each = rejoin()
    each.before = Membership({"a-id": member("a", 0)}, "range", None, True)
    each.after = Membership({"a-id": replace(member("a", 0), assignment={"t": (0,), "u": (0,)})}, "range", None, True)
    each.change = SAME._replace(new=1)
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (True, False)
    each.previous = Previous(each.clock, each.started_ms - 300, False, False, 1, is_resubscribed=True)
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (False, True)
    each.change = SAME._replace(new=2)  # one of them is of the topic that was there
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (True, False)


def test_nothing_changed_if_members_topics_and_partitions_are_the_same() -> None:
    each, members = rejoin(), {"a-id": member("a", 0)}
    each.change, each.before = SAME, Membership(members, "range", frozenset("t"), True)
    each.after = each.before
    assert conditions.nothing_changed(each)
    each.after = each.before._replace(topics=frozenset("tu"))
    assert not conditions.nothing_changed(each)
    assert conditions.topics_resubscribed(each)
