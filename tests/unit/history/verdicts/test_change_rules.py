from dataclasses import replace
from typing import Any

import pytest

from ottla.history.owners import AssignmentDiff
from ottla.history.rounds.round import Membership, Previous, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.verdicts.change_rules import CHANGE_RULES
from ottla.history.verdicts.rule import findings_of
from tests.support.kit.evidence import EvidenceLog, member

MEMBERS = {"a-id": member("a", 0)}
RANGE = Membership(MEMBERS, "range", None, True)
NEW_TOPIC = Membership({"a-id": replace(MEMBERS["a-id"], assignment={"t": (0,), "u": (0,)})}, "range", None, True)
SAME = AssignmentDiff(assigned=1, moved=0, new=0, gone=0, regained=0, kept=1)


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


HOLDS = {
    "rejoined without a reason": rejoin("not provided"),
    "an epoch alone": epoch(),
    "a generation alone": listed(),
    "metadata changed": rejoin("cached metadata has changed"),
    "subscription changed": rejoin("subscription has changed"),
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
