"""Who a member is, and which members are one process."""

from ottla.groups.events import EventMember
from ottla.history.processes import Identity, KnownMembers, Processes, of_member
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
