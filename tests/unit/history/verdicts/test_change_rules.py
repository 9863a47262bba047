"""Rebalances in which no member came or went."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.history.processes import AssignmentDiff
from ottla.history.rounds.round import Membership, Previous, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.verdicts import change_rules as conditions
from ottla.history.verdicts.change_rules import CHANGE_RULES
from ottla.history.verdicts.verdict import findings_of
from tests.support.kit.evidence import EvidenceLog, member

SAME = AssignmentDiff(assigned=1, moved=0, new=0, gone=0, regained=0, kept=1)

MEMBERS = {"a-id": member("a", 0)}
RANGE = Membership(MEMBERS, "range", None, True)
NEW_TOPIC = Membership({"a-id": replace(MEMBERS["a-id"], assignment={"t": (0,), "u": (0,)})}, "range", None, True)


def plain_rejoin(since_move_ms: int | None = None) -> Round:
    log = EvidenceLog()
    log.rejoin("a-id", 4)
    part = Part(clock="broker-log", source=Source.BROKER_LOG, stage=Stage.ENDED, items=log.lines)
    return Round(group="g", generation=5, parts=[part], since_move_ms=since_move_ms)


@pytest.mark.parametrize(("age_ms", "is_moved"), [(None, False), (500, True), (conditions.MOVED_WITHIN_MS + 1, False)])
def test_a_coordinator_moved_if_it_loaded_the_group_just_before(age_ms: int | None, is_moved: bool) -> None:
    assert conditions.is_coordinator_moved(plain_rejoin(age_ms)) is is_moved


def test_another_assignor_is_one_of_a_group_that_had_members() -> None:
    each = plain_rejoin()
    each.protocol_before, each.protocol_after, each.count_before = "range", "roundrobin", 2
    assert conditions.is_protocol_changed(each)
    each.count_before = 0
    assert not conditions.is_protocol_changed(each)


def test_partitions_of_a_topic_that_members_have_just_subscribed_to_are_no_change_of_topics() -> None:
    each = plain_rejoin()
    each.before = Membership({"a-id": member("a", 0)}, "range", None, True)
    each.after = Membership({"a-id": replace(member("a", 0), assignment={"t": (0,), "u": (0,)})}, "range", None, True)
    each.change = SAME._replace(new=1)
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (True, False)
    each.previous = Previous(each.clock, each.started_ms - 300, False, False, 1, is_resubscribed=True)
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (False, True)
    each.change = SAME._replace(new=2)  # one of them is of the topic that was there
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (True, False)
    each.change, each.after = SAME, each.before  # the topic has no partitions yet
    assert (conditions.partitions_changed(each), conditions.assigns_topic_subscribed_before(each)) == (False, False)


def test_nothing_changed_if_members_topics_and_partitions_are_the_same() -> None:
    each, members = plain_rejoin(), {"a-id": member("a", 0)}
    each.change, each.before = SAME, Membership(members, "range", frozenset("t"), True)
    each.after = each.before
    assert conditions.nothing_changed(each)
    each.after = each.before._replace(topics=frozenset("tu"))
    assert not conditions.nothing_changed(each)
    assert conditions.topics_resubscribed(each)


def round_of(log: EvidenceLog, context: list[Evidence] | None = None, **fields: Any) -> Round:
    part = Part(clock="broker-log", source=Source.BROKER_LOG, stage=Stage.ENDED, items=log.lines, context=context or [])
    return Round(**({"group": "g", "generation": 5, "parts": [part]} | fields))


def rejoin(reason: str = "need to re-join with the given member-id: m", **fields: Any) -> Round:
    log = EvidenceLog()
    log.rejoin("a-id", 4, client_reason=reason)
    return round_of(log, **fields)


def epoch(*kinds: Kind) -> Round:
    log = EvidenceLog(group_type="consumer")
    for kind in (*kinds, Kind.JOIN_COMPLETED):
        log.add(kind, generation=5)
    return round_of(log, before=RANGE)


def listed(count: int = 3, **evidence: int) -> Round:
    log = EvidenceLog()
    log.add(Kind.SYNC_COMPLETED, generation=5, evidence=evidence)
    return round_of(log, before=RANGE, count_after=count)


def dropped() -> Round:
    log = EvidenceLog()
    log.add(Kind.TRIGGER, generation=4, member_id="a", evidence={"topics_added": 0, "topics_removed": 1})
    log.add(Kind.JOIN_COMPLETED, generation=5)
    return round_of(log, change=SAME, before=RANGE, after=RANGE)


def soon_after(members: int = 3) -> Round:
    each = rejoin()
    each.previous = Previous("broker-log", each.started_ms - 1_000, True, members == 1, members)
    return each


def moved() -> Round:
    return rejoin(since_move_ms=900)


def subscribed_before() -> Round:
    each = rejoin(change=SAME._replace(new=1), before=RANGE, after=NEW_TOPIC)
    each.previous = Previous("broker-log", each.started_ms - 200, False, False, 3, is_resubscribed=True)
    return each


SEVERAL = plain_rejoin()
SEVERAL.say_resubscribed = frozenset({"a", "b"})
HOLDS = {
    "rejoined without a reason": rejoin("not provided"),
    "an epoch alone": epoch(),
    "a generation alone": listed(),
    "metadata changed": rejoin("cached metadata has changed"),
    "subscription changed": rejoin("subscription has changed"),
    "several members' subscriptions changed": SEVERAL,
    "has to revoke": rejoin("need to revoke partitions and re-join"),
    "enforced": rejoin("rebalance enforced by user"),
    "a reason of the application's own": rejoin("please do it"),
    "coordinator not available": rejoin("rebalance failed due to NotCoordinatorException"),
    "the coordinator had moved": moved(),
    "all subscribe to other topics": listed(2, members_resubscribed=2),
    "a topic that had no partitions is not subscribed any more": dropped(),
    "other topics subscribed": listed(members_resubscribed=1),
    "a topic subscribed just before is assigned": subscribed_before(),
    "other partitions assigned": rejoin(change=SAME._replace(new=1), before=RANGE, after=RANGE),
    "a subscribed topic is gone": rejoin(change=SAME._replace(gone=1), before=RANGE, after=Membership({}, "range", frozenset("t"), True)),
    "nothing changed": rejoin(change=SAME, before=RANGE, after=RANGE),
    "revoked partitions assigned": rejoin(change=SAME._replace(regained=1), before=RANGE, after=RANGE),
    "another assignor": rejoin(protocol_before="range", protocol_after="roundrobin"),
    "right after a change of members": soon_after(),
    "right after a first assignment": soon_after(1),
    "an eager assignor": rejoin(protocol_after="range"),
    "the metadata hash changed": epoch(Kind.TOPICS_CHANGED),
}
BLAND = rejoin()


def names(subject: Round) -> list[str]:
    return [finding.name for finding in findings_of(CHANGE_RULES, subject)]


def test_every_rule_has_its_example() -> None:
    assert set(HOLDS) == {rule.name for rule in CHANGE_RULES}


@pytest.mark.parametrize("name", HOLDS)
def test_the_rule_holds_for_its_example_alone(name: str) -> None:
    assert name in names(HOLDS[name])
    assert names(BLAND) == []


def test_other_topics_are_no_change_of_nothing() -> None:
    before, after = (Membership(MEMBERS, "range", frozenset(topics), True) for topics in ("t", "tu"))
    assert "nothing changed" not in names(rejoin(change=SAME, before=before, after=after))
    assert "other topics subscribed" in names(rejoin(change=SAME, before=before, after=after))


def test_several_members_that_say_so_themselves_subscribe_to_other_topics() -> None:
    rule = next(each for each in CHANGE_RULES if each.name == "all subscribe to other topics")
    for names, holds in ((("a", "b"), True), (("a", "a"), False)):
        log = EvidenceLog()
        for name in names:
            log.add(Kind.TRIGGER, generation=4, member_id=name, evidence={"topics_added": 1})
        log.add(Kind.JOIN_COMPLETED, generation=5)
        assert rule.holds(round_of(log, before=RANGE, count_after=2)) is holds
