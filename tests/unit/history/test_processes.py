"""Who a member is, which members are one process, and what it owns."""

from ottla.groups.events import EventMember
from ottla.history.processes import AssignmentDiff, Identity, KnownMembers, Owners, Processes, of_member
from tests.support.kit.evidence import EvidenceLog, member

UUID = "51b6c1d2-0000-4000-8000-0123456789ab"


def process_member(member_id: str, client_id: str = "c", *, host: str = "/h", instance_id: str | None = None) -> EventMember:
    return EventMember(
        member_id=member_id, instance_id=instance_id, client_id=client_id, client_host=host, session_timeout_ms=1, rebalance_timeout_ms=2
    )


def test_a_member_that_comes_back_with_another_id_is_the_same_process() -> None:
    processes = Processes()
    assert processes.rows_of([process_member("a-1", "a"), process_member("b-1", "b")], 1) == [0, 1]
    assert processes.rows_of([process_member("b-1", "b"), process_member("a-2", "a")], 2) == [1, 0]
    assert processes.rows[0].ids == [(1, "a-1"), (2, "a-2")]


def test_namesakes_are_processes_of_their_own() -> None:
    processes = Processes()
    assert processes.rows_of([process_member("1"), process_member("2")], 1) == [0, 1]
    assert processes.rows_of([process_member("2"), process_member("3")], 2) == [1, 2]


def test_a_static_member_keeps_its_row_by_its_instance_id_alone() -> None:
    processes = Processes()
    assert processes.rows_of([process_member("1", instance_id="i")], 1) == [0]
    assert processes.rows_of([process_member("2", "other", host="/x", instance_id="i"), process_member("3")], 2) == [0, 1]


def test_a_member_that_only_a_line_names_is_called_as_its_id_begins() -> None:
    processes = Processes()
    name = Identity("w1-6b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None)
    assert processes.row_of(name, (), 1) == 0
    assert processes.row_of(Identity("w1-7b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None), (), 2) == 0
    assert processes.row_of(Identity("w1-8b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None), {0}, 3) == 1
    assert [process.name for process in processes.rows] == ["w1", "w1"]


def test_members_are_found_as_evidence_names_them() -> None:
    processes = Processes()
    processes.rows_of(
        [
            process_member("a-1", "a"),
            process_member("b-1", "b", instance_id="i"),
            process_member("x", "n"),
            process_member("y", "n"),
        ],
        1,
    )
    assert processes.find(Identity("a-1", None, None, None)) == 0
    assert processes.find(Identity("a-9", None, "a", "/h")) == 0
    assert processes.find(Identity(None, "i", None, None)) == 1
    assert processes.find(Identity(None, None, "n", "/h")) is None  # which of the two?
    assert processes.find(Identity("zzz", None, None, None)) is None


def test_instance_id_then_client_id_then_the_member_id_name_a_client() -> None:
    assert Identity(f"w1-{UUID}", "i", "c").name == "i"
    assert Identity(f"w1-{UUID}", None, "c").name == "c"
    assert Identity(f"w1-{UUID}").label == "w1"
    assert Identity("KfqTkGW8RvKSBcfw7XNo6A").label == "KfqTkGW8RvKSBcfw7XNo6A"
    assert Identity().label == "a member"


def test_the_same_client_may_have_another_host() -> None:
    one, other = Identity("a", None, "c", "/h1"), Identity("b", None, "c", "/h2")
    assert one.is_same_client(other)
    assert not one.has_same_host(other)
    assert not Identity("a").is_same_client(Identity("b"))


def test_what_one_source_says_about_a_member_id_completes_what_others_say() -> None:
    known, log = KnownMembers(), EvidenceLog()
    log.rebalance(1, members=(member("w1", member_id="m1"),))
    log.leave("m1", 1)
    known.learn(log.lines)
    assert known.complete(Identity("m1")) == of_member(member("w1", member_id="m1"))
    assert known.complete(Identity("m2")) == Identity("m2")


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
