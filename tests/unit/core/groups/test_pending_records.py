"""Which commands depend on pending records."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import AppendFailed, ForgetTopics, Resign
from ottla.core.groups.effects import Effects
from ottla.core.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.core.groups.log.records import GroupMetadataRecord
from ottla.core.groups.pending_records import PendingRecords
from ottla.testing.scenarios.commands import parse_command

OFFSETS = CommittedOffsets("g", (TopicOffsets("t", bytes(16), [0, 1], [5, 6], [0, 0]),), commit_timestamp_ms=1)
REGISTRATION = (GroupMetadataRecord(group_id="g", value=None),)
NO_READERS = ("heartbeat g m gen=1", "commit g m gen=1 t/0=1", "join g m", "sync g m gen=1", "leave g m")
READERS = ("fetch g", "describe g", "delete g", "list")


def depends_on_pending(pending_records: PendingRecords, line: str) -> bool:
    return pending_records.depends_on_pending(parse_command(line, 1))


@pytest.mark.parametrize("line", [*NO_READERS, *READERS])
def test_without_pending_records_no_command_waits(line: str) -> None:
    pending_records = PendingRecords()
    assert not depends_on_pending(pending_records, line)
    pending_records.add(OFFSETS, {"g"})
    pending_records.remove(2)
    assert not depends_on_pending(pending_records, line)


def test_pending_offsets_delay_commands_that_read_offsets() -> None:
    pending_records = PendingRecords()
    pending_records.add(OFFSETS, {"g"})
    assert [line for line in (*NO_READERS, *READERS) if depends_on_pending(pending_records, line)] == list(READERS)
    assert not pending_records.heartbeat_depends_on_pending("g")


@pytest.mark.parametrize(("records", "known"), [(OFFSETS, ()), (REGISTRATION, ("g",))])
def test_a_groups_first_offsets_and_its_record_delay_every_command(records, known: tuple[str, ...]) -> None:
    pending_records = PendingRecords()
    pending_records.add(records, known)
    pending_records.add(OFFSETS, {"g"})
    assert all(depends_on_pending(pending_records, line) for line in (*NO_READERS, *READERS))
    assert pending_records.heartbeat_depends_on_pending("g")


def test_a_group_has_pending_records_until_all_of_them_are_replayed_or_have_failed() -> None:
    pending_records = PendingRecords()
    assert not pending_records.has("g")
    pending_records.add(OFFSETS, {"g"})
    assert pending_records.has("g")
    assert not pending_records.has("h")
    pending_records.remove(2)
    assert not pending_records.has("g")


def test_another_groups_pending_records_delay_nothing() -> None:
    pending_records = PendingRecords()
    pending_records.add(REGISTRATION, {"g"})
    assert not any(depends_on_pending(pending_records, line.replace(" g ", " h ")) for line in NO_READERS)
    assert not depends_on_pending(pending_records, "fetch h")


def test_a_notice_waits_for_all_groups_and_a_failure_for_none() -> None:
    pending_records = PendingRecords()
    pending_records.add(OFFSETS, {"g"})
    assert pending_records.depends_on_pending(Resign())
    assert pending_records.depends_on_pending(ForgetTopics(topics=("t",)))
    assert not pending_records.depends_on_pending(AppendFailed(effects=Effects(), error=ErrorCode.KAFKA_STORAGE_ERROR))
