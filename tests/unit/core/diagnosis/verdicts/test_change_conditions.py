import pytest

from ottla.core.diagnosis.evidence.model import Kind, Source
from ottla.core.diagnosis.rounds.part import Part, Stage
from ottla.core.diagnosis.rounds.round import AssignmentDiff, Membership, Round
from ottla.core.diagnosis.verdicts import change_conditions as conditions
from ottla.testing.kit.evidence import EvidenceLog, member

SAME = AssignmentDiff(assigned=1, moved=0, new=0, gone=0, regained=0, kept=1)


def rejoin(context_age_ms: int | None = None) -> Round:
    log = EvidenceLog()
    log.rejoin("a-id", 4)
    part = Part(clock="broker-log", source=Source.BROKER_LOG, stage=Stage.ENDED, items=log.lines)
    if context_age_ms is not None:
        part.context = [EvidenceLog(now_ms=log.now_ms - context_age_ms).add(Kind.LOADED)]
    return Round(group="g", generation=5, parts=[part])


@pytest.mark.parametrize(("age_ms", "is_moved"), [(None, False), (500, True), (conditions.MOVED_WITHIN_MS + 1, False)])
def test_a_coordinator_moved_if_it_loaded_the_group_just_before(age_ms: int | None, is_moved: bool) -> None:
    assert conditions.is_coordinator_moved(rejoin(age_ms)) is is_moved


def test_another_assignor_is_one_of_a_group_that_had_members() -> None:
    each, members = rejoin(), {"a-id": member("a", 0)}
    each.before, each.after = Membership(members, "range", None, True), Membership(members, "roundrobin", None, True)
    assert conditions.is_protocol_changed(each)
    each.before = Membership({}, "range", None, True)
    assert not conditions.is_protocol_changed(each)


def test_nothing_changed_if_members_topics_and_partitions_are_the_same() -> None:
    each, members = rejoin(), {"a-id": member("a", 0)}
    each.diff, each.before = SAME, Membership(members, "range", frozenset("t"), True)
    each.after = each.before
    assert conditions.nothing_changed(each)
    each.after = each.before._replace(topics=frozenset("tu"))
    assert not conditions.nothing_changed(each)
    assert conditions.topics_resubscribed(each)
