"""What a coordinator knows after reading a log of the offsets topic, also one that Apache Kafka wrote: with transactions, in segments."""

import pytest

from ottla.coordinator.loading import load
from ottla.groups.log.records import GroupMetadataRecord, GroupRecord, OffsetRecord, encode_key, encode_value
from ottla.groups.log.replayed_state import LoadedGroups, ReferenceReducer
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.records.batch import empty_batch, encode_batch, read_header

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
MARKER_VALUE = bytes(6)
FIRST, SECOND = 1000, 1001


def offset(partition: int, committed: int | None, topic: str = "foo") -> OffsetRecord:
    value = None if committed is None else OffsetValue(offset=committed, leader_epoch=-1, metadata="", commit_timestamp_ms=0)
    return OffsetRecord(group_id="g", topic=topic, partition=partition, value=value)


def registration(assignment: bytes = b"plan") -> GroupMetadataRecord:
    member = MemberValue(
        member_id="m1",
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=b"",
        assignment=assignment,
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=935, protocol="range", leader="m1", current_state_timestamp_ms=0, members=(member,)
    )
    return GroupMetadataRecord(group_id="g", value=value)


class Log:
    """A log of the offsets topic: batches of records, of transactions, and their ends."""

    def __init__(self, **settings: int) -> None:
        self.files = MemoryFiles()
        self.log = PartitionLog(self.files, "o-0", LogSettings(**settings))  # type: ignore[arg-type]
        self.log.open(0)
        self._sequences: dict[int, int] = {}

    def add(self, *records: GroupRecord, producer: int | None = None) -> "Log":
        """One batch."""
        entries = [Record(at, 0, encode_key(record), encode_value(record)) for at, record in enumerate(records)]
        if producer is None:
            self.log.append_records(entries, now_ms=0)
            return self
        sequence = self._sequences.get(producer, 0)
        self._sequences[producer] = sequence + len(entries)
        return self.batch(encode_batch(entries, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True))

    def end(self, producer: int, how: bytes) -> "Log":
        """The marker that ends a transaction."""
        marker = [Record(0, 0, how, MARKER_VALUE)]
        return self.batch(encode_batch(marker, producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True))

    def batch(self, batch: bytearray) -> "Log":
        self.log.append(batch, now_ms=0, from_client=False)
        return self

    def load(self) -> LoadedGroups:
        return load(self.log, ReferenceReducer)

    def offsets(self) -> dict[tuple[str, int], int]:
        by_topic = self.load().replayed.offsets.get("g", {})
        return {(topic, partition): value.offset for topic, values in by_topic.items() for partition, value in values.items()}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadTransactionalOffsetsWithoutGroup")
def test_offsets_of_a_committed_transaction_count() -> None:
    log = Log().add(offset(0, 23), offset(1, 455), offset(0, 8992, "bar"), producer=FIRST).end(FIRST, COMMIT)
    assert log.offsets() == {("foo", 0): 23, ("foo", 1): 455, ("bar", 0): 8992}
    assert log.load().replayed.group_metadata == {}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testDoNotLoadAbortedTransactionalOffsetCommits")
def test_offsets_of_an_aborted_transaction_do_not() -> None:
    assert Log().add(offset(0, 23), offset(1, 455), producer=FIRST).end(FIRST, ABORT).offsets() == {}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadWithCommittedAndAbortedTransactionalOffsetCommits")
def test_transactions_of_one_producer_are_told_apart() -> None:
    log = Log().add(offset(2, 231), offset(3, 4551), producer=FIRST).end(FIRST, ABORT)
    log.add(offset(0, 23), offset(1, 455), producer=FIRST).end(FIRST, COMMIT)
    assert log.offsets() == {("foo", 0): 23, ("foo", 1): 455}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadTransactionalOffsetCommitsFromMultipleProducers")
def test_transactions_of_several_producers_are_told_apart() -> None:
    log = Log().add(offset(0, 23), producer=FIRST).add(offset(1, 231), producer=SECOND).add(offset(2, 7), producer=FIRST)
    log.end(FIRST, COMMIT).end(SECOND, COMMIT)
    assert log.offsets() == {("foo", 0): 23, ("foo", 1): 231, ("foo", 2): 7}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testGroupLoadWithConsumerAndTransactionalOffsetCommitsConsumerWins")
def test_a_commit_behind_those_of_a_transaction_counts() -> None:
    assert Log().add(offset(0, 23), producer=FIRST).add(offset(0, 24)).end(FIRST, COMMIT).offsets() == {("foo", 0): 24}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testGroupLoadWithConsumerAndTransactionalOffsetCommitsTransactionWins")
def test_a_commit_before_those_of_a_transaction_does_not() -> None:
    assert Log().add(offset(0, 24)).add(offset(0, 23), producer=FIRST).end(FIRST, COMMIT).offsets() == {("foo", 0): 23}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadOffsetsWithEmptyControlBatch")
def test_a_marker_of_which_the_cleaner_left_the_header_alone_is_passed_over() -> None:
    marker = encode_batch([Record(0, 0, COMMIT, MARKER_VALUE)], producer_id=FIRST, producer_epoch=0, is_transactional=True, is_control=True)
    log = Log().add(offset(0, 23)).batch(empty_batch(read_header(marker))).add(offset(1, 455))
    assert log.offsets() == {("foo", 0): 23, ("foo", 1): 455}


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadGroupAndOffsetsFromDifferentSegments")
def test_later_segments_count() -> None:
    log = Log(segment_bytes=200)
    log.add(offset(0, 23), offset(1, 455), offset(0, 8992, "bar")).add(registration())
    log.add(offset(0, 24), offset(1, 456), offset(0, 8993, "bar")).add(registration(b"later"))
    assert len([name for name in log.files.list("o-0") if name.endswith(".log")]) > 1
    assert log.offsets() == {("foo", 0): 24, ("foo", 1): 456, ("bar", 0): 8993}
    assert log.load().replayed.group_metadata["g"].members[0].assignment == b"later"


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadGroupWithLargeGroupMetadataRecord")
def test_a_registration_larger_than_what_is_read_at_once() -> None:
    plan = bytes(6_000_000)
    loaded = Log().add(offset(0, 23)).add(registration(plan)).add(offset(0, 24)).load()
    assert loaded.replayed.group_metadata["g"].members[0].assignment == plan
    assert (loaded.unknown, loaded.problems) == (0, ())


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testLoadGroupsAndOffsetsWillIgnoreUnknownMessage")
def test_records_of_a_type_from_the_future_are_passed_over() -> None:
    log = Log().add(offset(0, 23), registration())
    log.log.append_records([Record(0, 0, b"\x7f\xff" + b"whatever", b"\x00\x00")], now_ms=0)
    loaded = log.add(offset(1, 455)).load()
    assert (loaded.unknown, loaded.problems) == (1, ())
    assert log.offsets() == {("foo", 0): 23, ("foo", 1): 455}
    assert loaded.replayed.group_metadata["g"].generation == 935
