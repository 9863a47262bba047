"""Which command must wait until records are settled: the one that would read them."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import AppendFailed, ForgetTopics, Resign
from ottla.core.groups.committed import CommittedOffsets, TopicOffsets
from ottla.core.groups.effects import Effects
from ottla.core.groups.records import GroupMetadataRecord
from ottla.core.groups.undecided import Undecided
from ottla.testing.scenario_commands import parse_command

OFFSETS = CommittedOffsets("g", (TopicOffsets("t", bytes(16), [0, 1], [5, 6], [0, 0]),), commit_timestamp_ms=1)
REGISTRATION = (GroupMetadataRecord(group_id="g", value=None),)
NO_READERS = ("heartbeat g m gen=1", "commit g m gen=1 t/0=1", "join g m", "sync g m gen=1", "leave g m")
READERS = ("fetch g", "describe g", "delete g", "list")


def holds_up(undecided: Undecided, line: str) -> bool:
    return undecided.holds_up(parse_command(line, 1))


@pytest.mark.parametrize("line", [*NO_READERS, *READERS])
def test_nothing_waits_where_nothing_is_undecided(line: str) -> None:
    undecided = Undecided()
    assert not holds_up(undecided, line)
    undecided.add(OFFSETS, {"g"})
    undecided.remove(2)
    assert not holds_up(undecided, line)


def test_offsets_hold_up_who_reads_offsets() -> None:
    undecided = Undecided()
    undecided.add(OFFSETS, {"g"})
    assert [line for line in (*NO_READERS, *READERS) if holds_up(undecided, line)] == list(READERS)
    assert not undecided.holds_up_beats("g")


@pytest.mark.parametrize(("records", "known"), [(OFFSETS, ()), (REGISTRATION, ("g",))])
def test_a_groups_first_offsets_and_its_registration_hold_up_everything(records, known: tuple[str, ...]) -> None:
    undecided = Undecided()
    undecided.add(records, known)
    undecided.add(OFFSETS, {"g"})
    assert all(holds_up(undecided, line) for line in (*NO_READERS, *READERS))
    assert undecided.holds_up_beats("g")


def test_another_group_waits_for_nothing_of_its_own() -> None:
    undecided = Undecided()
    undecided.add(REGISTRATION, {"g"})
    assert not any(holds_up(undecided, line.replace(" g ", " h ")) for line in NO_READERS)
    assert not holds_up(undecided, "fetch h")


def test_what_the_broker_tells_waits_for_all_groups_but_a_failure_for_none() -> None:
    undecided = Undecided()
    undecided.add(OFFSETS, {"g"})
    assert undecided.holds_up(Resign())
    assert undecided.holds_up(ForgetTopics(topics=("t",)))
    assert not undecided.holds_up(AppendFailed(effects=Effects(), error=ErrorCode.KAFKA_STORAGE_ERROR))
