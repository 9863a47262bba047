from ottla.groups.events import EventMember
from ottla.history.owners import AssignmentDiff, Owners
from ottla.history.processes import Processes
from tests.support.kit.evidence import member


def owners(*first: EventMember, returned: dict[str, str] | None = None) -> Owners:
    found = Owners(Processes(returned))
    found.update(first, 1)
    return found


def test_an_assignment_is_compared_partition_by_partition() -> None:
    found = owners(member("a", 0, 1), member("b", 2, 3, 5))
    found.update([member("a", 0, 1), member("b", 2, 3)], 2)
    change = found.update([member("a", 0, 2, 5), member("b", 4)], 3)
    assert change == AssignmentDiff(assigned=4, moved=1, new=1, gone=2, regained=1, given_back=0, kept=1, is_first=False)
    assert change.all_moved == 2


def test_partitions_that_their_last_owner_gets_again_have_not_moved() -> None:
    found = owners(member("a", 0, 1))
    assert found.update([member("a", 0)], 2).gone == 1
    change = found.update([member("a", 0, 1)], 3)
    assert (change.regained, change.given_back, change.all_moved) == (1, 1, 0)


def test_the_first_assignment_has_none_to_be_compared_with() -> None:
    change = Owners(Processes()).update([member("a", 0, 1)], 1)
    assert change.is_first
    assert (change.assigned, change.new, change.all_moved) == (2, 2, 0)


def test_a_member_that_came_back_with_another_id_owns_what_it_owned() -> None:
    found = owners(member("a", 0, member_id="a-1"), member("b", 1))
    assert found.update([member("a", 0, member_id="a-2"), member("b", 1)], 2).moved == 0


def test_a_client_that_verdicts_say_came_back_owns_what_it_owned_wherever_it_is() -> None:
    first = EventMember(
        member_id="a-1",
        instance_id=None,
        client_id="a",
        client_host="/1",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        assignment={"t": (0,)},
    )
    second = EventMember(
        member_id="a-2",
        instance_id=None,
        client_id="a",
        client_host="/2",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        assignment={"t": (0,)},
    )
    assert owners(first).update([second], 2).moved == 1
    assert owners(first, returned={"a-2": "a-1"}).update([second], 2).moved == 0
