from ottla.groups.events import EventMember
from ottla.history.processes import Processes
from ottla.history.rounds.identity import Identity


def member(member_id: str, client_id: str = "c", *, host: str = "/h", instance_id: str | None = None) -> EventMember:
    return EventMember(
        member_id=member_id, instance_id=instance_id, client_id=client_id, client_host=host, session_timeout_ms=1, rebalance_timeout_ms=2
    )


def test_a_member_that_comes_back_with_another_id_is_the_same_process() -> None:
    processes = Processes()
    assert processes.rows_of([member("a-1", "a"), member("b-1", "b")], 1) == [0, 1]
    assert processes.rows_of([member("b-1", "b"), member("a-2", "a")], 2) == [1, 0]
    assert processes.rows[0].ids == [(1, "a-1"), (2, "a-2")]


def test_namesakes_are_processes_of_their_own() -> None:
    processes = Processes()
    assert processes.rows_of([member("1"), member("2")], 1) == [0, 1]
    assert processes.rows_of([member("2"), member("3")], 2) == [1, 2]


def test_a_static_member_keeps_its_row_by_its_instance_id_alone() -> None:
    processes = Processes()
    assert processes.rows_of([member("1", instance_id="i")], 1) == [0]
    assert processes.rows_of([member("2", "other", host="/x", instance_id="i"), member("3")], 2) == [0, 1]


def test_a_member_that_only_a_line_names_is_called_as_its_id_begins() -> None:
    processes = Processes()
    name = Identity("w1-6b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None)
    assert processes.row_of(name, (), 1) == 0
    assert processes.row_of(Identity("w1-7b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None), (), 2) == 0
    assert processes.row_of(Identity("w1-8b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11", None, None, None), {0}, 3) == 1
    assert [process.name for process in processes.rows] == ["w1", "w1"]


def test_members_are_found_as_evidence_names_them() -> None:
    processes = Processes()
    processes.rows_of([member("a-1", "a"), member("b-1", "b", instance_id="i"), member("x", "n"), member("y", "n")], 1)
    assert processes.find(Identity("a-1", None, None, None)) == 0
    assert processes.find(Identity("a-9", None, "a", "/h")) == 0
    assert processes.find(Identity(None, "i", None, None)) == 1
    assert processes.find(Identity(None, None, "n", "/h")) is None  # which of the two?
    assert processes.find(Identity("zzz", None, None, None)) is None
