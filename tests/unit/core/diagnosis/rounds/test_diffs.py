from ottla.core.diagnosis.rounds.diffs import diff, owners, same_members
from ottla.core.diagnosis.rounds.round import AssignmentDiff, Membership
from ottla.core.model import EventMember
from ottla.testing.kit.evidence import member


def membership(*members: EventMember) -> Membership:
    return Membership({each.member_id: each for each in members}, "range", None, True)


def test_an_assignment_is_compared_partition_by_partition() -> None:
    before = owners(membership(member("a", 0, 1), member("b", 2, 3)))
    after = owners(membership(member("a", 0, 2), member("b", 4, 5)))
    known = before | {partition: "x" for partition in after if partition.partition == 5}
    assert diff(before, after, known) == AssignmentDiff(assigned=4, moved=1, new=1, gone=2, regained=1, kept=1)


def test_static_members_are_the_same_with_another_member_id() -> None:
    before = membership(member("a", member_id="1", instance_id="i")).members
    after = membership(member("a", member_id="2", instance_id="i")).members
    assert same_members(before, after)
    assert not same_members(before, membership(member("a", member_id="2")).members)
