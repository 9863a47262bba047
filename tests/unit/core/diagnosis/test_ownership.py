"""How much of an assignment moved, and members that come back under a new id."""

from ottla.core.diagnosis.ownership import AssignmentChange, Owners
from ottla.core.model import EventMember


def _member(member_id: str, partitions: list[int], client: str | None = None, instance: str | None = None) -> EventMember:
    return EventMember(
        member_id=member_id,
        instance_id=instance,
        client_id=client or member_id,
        client_host="/127.0.0.1",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        assignment={"t": partitions} if partitions else {},
    )


def test_the_first_assignment_is_new_and_nothing_of_it_moved():
    assert Owners().update([_member("a", [0, 1]), _member("b", [2])]) == AssignmentChange(assigned=3, moved=0, new=3)


def test_one_of_ten_members_leaves_and_exactly_its_five_partitions_move():
    owners = Owners()
    members = [_member(f"m{i}", list(range(5 * i, 5 * i + 5))) for i in range(10)]
    owners.update(members)
    others = [_member(f"m{i}", list(range(5 * i, 5 * i + 5)) + ([45 + i] if i < 5 else [])) for i in range(9)]
    assert owners.update(others) == AssignmentChange(assigned=50, moved=5, new=0)


def test_a_member_that_comes_back_under_a_new_id_keeps_its_partitions():
    owners = Owners()
    owners.update([_member("a-1", [0, 1], client="a"), _member("b-1", [2], client="b")])
    assert owners.update([_member("a-2", [0, 1], client="a"), _member("b-1", [2], client="b")]).moved == 0


def test_clients_of_one_name_on_one_host_are_distinguished_by_member_id():
    owners = Owners()
    owners.update([_member("x-1", [0], client="x"), _member("x-2", [1], client="x")])
    assert owners.update([_member("x-2", [0], client="x"), _member("x-3", [1], client="x")]).moved == 2
    # Alone now, but it was not alone before: still ambiguous.
    assert owners.update([_member("x-4", [0, 1], client="x")]).moved == 2


def test_static_members_are_known_by_their_instance_id():
    owners = Owners()
    owners.update([_member("p", [0], client="c", instance="i-1")])
    assert owners.update([_member("q", [0], client="other", instance="i-1")]).moved == 0
    assert owners.update([_member("r", [0], client="other", instance="i-2")]).moved == 1
    assert owners.update([_member("s", [0], client="other")]).moved == 1


def test_partitions_are_new_once():
    owners = Owners()
    owners.update([_member("a", [0, 1])])
    assert owners.update([_member("a", [0, 1, 2, 3])]) == AssignmentChange(assigned=4, moved=0, new=2)


def test_a_cooperative_move_is_counted_in_the_rebalance_that_assigns_the_partition_again():
    owners = Owners()
    owners.update([_member("a", [0, 1])])
    assert owners.update([_member("a", [0]), _member("b", [])]) == AssignmentChange(assigned=1, moved=0, new=0)
    assert owners.update([_member("a", [0]), _member("b", [1])]) == AssignmentChange(assigned=2, moved=1, new=0)
