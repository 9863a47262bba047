"""The oracle finds what it is there to find."""

from pathlib import Path

from ottla.core.model import EventMember, GroupEvent
from ottla.testing.chaos.oracle import JournalRead, lost, owned_twice, read_journal, without_cause


def event(kind: str, generation: int, members: dict[str, list[int]] | None = None, trigger: str | None = None) -> GroupEvent:
    plans = tuple(
        EventMember(
            member_id=name, instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=1,
            assignment={"t": numbers},
        )
        for name, numbers in (members or {}).items()
    )  # fmt: skip
    return GroupEvent(
        at_ms=generation, group="g", kind=kind, generation=generation, state_from="", state_to="", members=plans, trigger=trigger
    )


def test_journals_are_read_without_a_torn_end(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text("0 5 seven\n! KafkaError('x')\n1 2 eight\n1 3 ni")
    assert read_journal(journal) == JournalRead([((0, 5), "seven"), ((1, 2), "eight")], ["KafkaError('x')"])
    assert read_journal(tmp_path / "never") == JournalRead([], [])


def test_a_record_that_no_consumer_processed_is_lost_and_so_is_one_processed_as_another() -> None:
    journals = [JournalRead([((0, 0), "a"), ((0, 1), "b")], []), JournalRead([((0, 1), "b")], [])]
    assert lost({(0, 0): "a", (0, 1): "b"}, journals) == []
    assert lost({(0, 0): "a", (0, 1): "x", (1, 0): "c"}, journals) == [(0, 1), (1, 0)]


def test_two_owners_in_one_generation_are_found_also_when_two_coordinators_told() -> None:
    fine = [event("sync_completed", 1, {"a": [0, 1], "b": [2]}), event("sync_completed", 2, {"a": [2], "b": [0, 1]})]
    assert owned_twice(fine) == []
    assert owned_twice([event("sync_completed", 1, {"a": [0, 1], "b": [1]})]) == ["t-1 in generation 1 of g: a, b"]
    assert owned_twice([fine[0], event("sync_completed", 1, {"b": [0]})]) == ["t-0 in generation 1 of g: a, b"]


def test_a_rebalance_without_a_trigger_has_no_cause() -> None:
    caused = [event("trigger", 0, trigger="JOIN_NEW"), event("join_completed", 1), event("sync_completed", 1)]
    assert without_cause(caused) == []
    assert without_cause([*caused, event("join_completed", 2), event("sync_completed", 2)]) == ["generation 2 of g (completed)"]
