"""Control batches in the log: markers, other kinds, damage."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from ottla.log import producer_state
from ottla.log.append import Appended
from ottla.log.durability import Durability
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.index import AbortedTransaction, decode_transactions
from ottla.log.log_reading import ProducerEnd
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import SEQUENCE_MAX, ProducerBatch, ProducerStates, SequenceRefused, last_sequence
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.log.transaction_state import AbortedTransactions, TransactionState, read_end_marker
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader, encode_batch, read_header
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.faulty_files import overwrite


def test_a_marker_is_read_from_its_batch() -> None:
    marker = EndMarker(ControlType.ABORT, 4)
    batch = encode_batch(
        [Record(0, 1, *encode_end_marker(marker))], producer_id=9, producer_epoch=0, is_transactional=True, is_control=True
    )
    assert read_end_marker(batch) == marker


def test_another_kind_is_none_and_damage_is_reported() -> None:
    assert read_end_marker(encode_batch([Record(0, 1, b"\0\0\0\2", b"")], is_control=True)) is None
    with pytest.raises(StorageError, match="cannot be read"):
        read_end_marker(encode_batch([Record(0, 1, b"\0", b"")], is_control=True))


def test_an_aborted_transaction_gets_an_index_entry_and_a_failing_disk_ends_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    active = Segment(files, "t-0", 0, index_interval_bytes=1, made_ms=0)
    active.create()
    durability = Durability(files, "t-0", offset=0, undurable=())
    manager = TransactionState(files, "t-0", producers=ProducerStates(), aborted=(), durability=durability)

    def abort(at: int) -> None:
        of_producer = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
        manager.producers.note(read_header(encode_batch([Record(at, 1, None, b"x")], base_offset=at, base_sequence=at // 4, **of_producer)))  # type: ignore[arg-type]
        key, value = encode_end_marker(EndMarker(ControlType.ABORT, 4))
        marker = encode_batch([Record(at + 1, 1, key, value)], base_offset=at + 1, is_control=True, **of_producer)  # type: ignore[arg-type]
        manager.add_control_batch(active, read_header(marker), memoryview(marker))

    abort(0)
    assert manager.aborted.all() == (AbortedTransaction(9, 0, 1, 2),)
    assert files.size("t-0/00000000000000000000.txnindex") == 34
    other = encode_batch([Record(2, 1, b"\0\0\0\2", b"")], is_control=True)
    manager.add_control_batch(active, read_header(other), memoryview(other))
    assert durability.broken is None

    def fail(_path: str) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(files, "open", fail)
    abort(4)
    assert durability.broken == "the log t-0 takes no more records: the disk is full"
    assert len(manager.aborted.all()) == 2


NOW_MS = 1_000_000
DIRECTORY = "t-0"


def open_log(files: Files, segment_bytes: int = 10_000) -> PartitionLog:
    log = PartitionLog(files, DIRECTORY, LogSettings(segment_bytes=segment_bytes))
    log.open(NOW_MS)
    return log


class Producer:
    """Writes transactional batches as they come from other brokers."""

    def __init__(self, log: PartitionLog, producer_id: int) -> None:
        self.log = log
        self.producer_id = producer_id
        self.sequence = 0

    def write(self, count: int = 2) -> None:
        records = [Record(number, NOW_MS, b"k", b"v") for number in range(count)]
        self._append(encode_batch(records, is_transactional=True, base_sequence=self.sequence, **self._ids))
        self.sequence += count

    def end(self, kind: ControlType) -> None:
        record = Record(0, NOW_MS, *encode_end_marker(EndMarker(kind, 0)))
        self._append(encode_batch([record], is_transactional=True, is_control=True, **self._ids))

    @property
    def _ids(self) -> dict[str, int]:
        return {"producer_id": self.producer_id, "producer_epoch": 0}

    def _append(self, batch: bytearray) -> None:
        assert isinstance(self.log.append(batch, now_ms=NOW_MS, from_client=False), Appended)


def history(log: PartitionLog) -> None:
    """0-1 of seven, 2-3 of eight, 4 seven aborts, 5-6 of seven, 7 eight commits, 8 seven aborts, 9-10 of eight (open)."""
    seven, eight = Producer(log, 7), Producer(log, 8)
    seven.write()
    eight.write()
    seven.end(ControlType.ABORT)
    seven.write()
    eight.end(ControlType.COMMIT)
    seven.end(ControlType.ABORT)
    eight.write()


ABORTED = [AbortedTransaction(7, 0, 4, 2), AbortedTransaction(7, 5, 8, 9)]


@pytest.mark.parametrize("segment_bytes", [10_000, 200, 100])
def test_history_is_the_same_after_any_restart(segment_bytes: int) -> None:
    for how in ("running", "closed", "killed", "index lost", "index damaged"):
        files = MemoryFiles()
        log = open_log(files, segment_bytes)
        history(log)
        if how == "closed":
            log.close()
        if how.startswith("index"):
            for name in [name for name in files.list(DIRECTORY) if name.endswith(".txnindex")]:
                files.remove(f"{DIRECTORY}/{name}")
                if how == "index damaged":
                    files.open(f"{DIRECTORY}/{name}").append(b"\xff" * 33)
        if how != "running":
            log = open_log(files, segment_bytes)
        assert (log.last_stable_offset, log.high_watermark) == (9, 11), how
        assert log.aborted_transactions(0, 11) == ABORTED, how
        assert log.aborted_transactions(5, 9) == ABORTED[1:], how
        assert log.aborted_transactions(3, 5) == ABORTED[:1], how
        assert log.aborted_transactions(9, 11) == [], how
        assert log.snapshot().aborted == tuple(ABORTED)
        Producer(log, 8).end(ControlType.ABORT)
        assert log.last_stable_offset == 12
        assert log.aborted_transactions(9, 12) == [AbortedTransaction(8, 9, 11, 12)]


def test_an_index_entry_that_was_torn_by_a_crash_is_made_again() -> None:
    """It has its length, and zeros where its producer id was: as whole as any, and another producer's."""
    files = MemoryFiles()
    history(open_log(files))
    overwrite(files, f"{DIRECTORY}/{0:020d}.txnindex", 2, bytes(8))
    assert open_log(files).snapshot().aborted == tuple(ABORTED)


def test_the_index_is_kafkas_and_lies_with_the_marker() -> None:
    files = MemoryFiles()
    history(open_log(files))
    assert decode_transactions(files.read_all(f"{DIRECTORY}/{0:020d}.txnindex")) == ABORTED


def test_committed_reads_end_at_the_last_stable_offset() -> None:
    log = open_log(MemoryFiles())
    history(log)
    everything, committed = log.read(0, 10_000), log.read(0, 10_000, end_offset=log.last_stable_offset)
    assert everything is not None
    assert committed is not None
    assert 0 < len(committed) < len(everything)
    assert log.read(9, 10_000, end_offset=log.last_stable_offset) == b""


def test_what_lies_below_the_start_is_forgotten() -> None:
    log = open_log(MemoryFiles(), 100)
    history(log)
    log.delete_records(5)
    log.sync_rolled()
    log.expire_segments(NOW_MS)
    assert log.aborted_transactions(0, 11) == ABORTED[1:]


def test_overlap_is_by_first_record_and_marker(tmp_path: Path) -> None:
    aborted = AbortedTransactions(ABORTED)
    assert aborted.overlapping(4, 5) == ABORTED[:1]
    assert aborted.overlapping(4, 6) == ABORTED
    assert aborted.overlapping(0, 0) == []
    assert aborted.all() == tuple(ABORTED)


def header(sequence: int, *, count: int = 3, epoch: int = 0, offset: int = 0, timestamp_ms: int = 1000, attributes: int = 0) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, attributes, count - 1, timestamp_ms, timestamp_ms, 11, epoch, sequence, count)


def after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        assert states.check(each) is None
        states.note(each)
    return states


def error(states: ProducerStates, batch: BatchHeader) -> ErrorCode:
    refused = states.check(batch)
    assert isinstance(refused, SequenceRefused)
    return refused.error


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(header(10)) is None


def test_the_next_batch_follows_without_a_gap() -> None:
    states = after(header(0), header(3, offset=3))
    assert states.check(header(6)) is None
    for sequence in (1, 4, 5, 7):
        assert error(states, header(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_known_again() -> None:
    states = after(*[header(3 * number, offset=100 + 3 * number) for number in range(7)])
    for number in range(2, 7):
        known = states.check(header(3 * number))
        assert isinstance(known, ProducerBatch)
        assert (known.first_offset, known.last_offset) == (100 + 3 * number, 102 + 3 * number)
    assert error(states, header(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert error(states, header(18, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_epochs() -> None:
    states = after(header(0, epoch=3))
    assert error(states, header(3, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(states, header(0, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(states, header(3, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=4)) is None
    states.note(header(0, epoch=4))
    assert error(states, header(0, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(states.check(header(0, epoch=4)), ProducerBatch)


def test_sequences_begin_again_after_the_largest() -> None:
    assert last_sequence(SEQUENCE_MAX - 1, 2) == 0
    wrapped = after(header(SEQUENCE_MAX - 1))
    assert wrapped.check(header(1)) is None
    at_the_end = after(header(SEQUENCE_MAX - 2))
    assert at_the_end.check(header(0)) is None
    restarted = ProducerStates.decode(wrapped.encode())
    assert restarted is not None
    assert isinstance(restarted.check(header(SEQUENCE_MAX - 1)), ProducerBatch)


def test_a_transaction_marker_raises_the_epoch_only() -> None:
    states = after(header(0))
    states.note(header(-1, count=1, epoch=1, attributes=0x30))
    assert error(states, header(3, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error(states, header(3, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=1)) is None


def test_silent_producers_are_forgotten() -> None:
    states = after(header(0, timestamp_ms=1000))
    assert states.expire(now_ms=1999, after_ms=1000) == 0
    assert states.expire(now_ms=2000, after_ms=1000) == 1
    assert len(states) == 0


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    states = after(header(0), header(3, offset=3, timestamp_ms=1005))
    restarted = ProducerStates.decode(states.encode())
    assert restarted is not None
    known = restarted.check(header(3))
    assert isinstance(known, ProducerBatch)
    assert (known.first_offset, known.last_offset, known.timestamp_ms) == (3, 5, 1005)
    assert error(restarted, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert restarted.check(header(6)) is None
    assert restarted.encode() == states.encode()


def test_a_producer_known_by_its_marker_alone_survives_too() -> None:
    states = ProducerStates()
    states.note(header(-1, count=1, epoch=1, attributes=0x30))
    restarted = ProducerStates.decode(states.encode())
    assert restarted is not None
    assert restarted.encode() == states.encode()
    assert restarted.check(header(0, epoch=1)) is None
    assert error(restarted, header(0, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_snapshots_layout() -> None:
    entries = struct.pack(">qhiqiqiq", 11, 0, 2, 102, 2, 1000, -1, -1)
    body = struct.pack(">i", 1) + entries
    assert after(header(0, offset=100)).encode() == struct.pack(">hI", 1, crc32c(body)) + body
    assert ProducerStates().encode() == struct.pack(">hIi", 1, crc32c(bytes(4)), 0)


@pytest.mark.parametrize("cut", range(56))
def test_a_torn_snapshot_is_none(cut: int) -> None:
    assert ProducerStates.decode(after(header(0)).encode()[:cut]) is None


@pytest.mark.parametrize("at", [1, 2, 9, 20])
def test_a_changed_snapshot_is_none(at: int) -> None:
    data = bytearray(after(header(0)).encode())
    data[at] ^= 1
    assert ProducerStates.decode(bytes(data)) is None


def test_a_snapshot_whose_count_is_wrong_is_none() -> None:
    body = struct.pack(">i", 5)
    assert ProducerStates.decode(struct.pack(">hI", 1, crc32c(body)) + body) is None


def transactional(offset: int, count: int = 1, *, producer_id: int = 7, control: bool = False) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT | control * CONTROL_BIT
    sequence = NO_SEQUENCE if control else offset
    return BatchHeader(offset, 100, 0, 2, 0, attributes, count - 1, 0, 50, producer_id, 0, sequence, count)


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    states = ProducerStates()
    assert states.first_open_offset is None
    states.note(transactional(10, 5))
    states.note(transactional(15, producer_id=8))
    states.note(transactional(16))
    assert states.first_open_offset == 10
    assert states.end_transaction(transactional(17, control=True), EndMarker(ControlType.COMMIT, 3)) is None
    assert states.first_open_offset == 15
    states.note(transactional(18))
    aborted = states.end_transaction(transactional(19, control=True), EndMarker(ControlType.ABORT, 3))
    assert aborted == AbortedTransaction(producer_id=7, first_offset=18, last_offset=19, last_stable_offset=15)
    aborted = states.end_transaction(transactional(20, producer_id=8, control=True), EndMarker(ControlType.ABORT, 3))
    assert aborted == AbortedTransaction(producer_id=8, first_offset=15, last_offset=20, last_stable_offset=21)
    assert states.first_open_offset is None


def test_a_marker_without_a_transaction_aborts_nothing() -> None:
    states = ProducerStates()
    assert states.end_transaction(transactional(3, control=True), EndMarker(ControlType.ABORT, 1)) is None
    assert states.ends() == {7: ProducerEnd(0, -1)}


def test_open_transactions_survive_the_snapshot_and_do_not_expire() -> None:
    states = ProducerStates()
    states.note(transactional(10, 5))
    found = ProducerStates.decode(states.encode())
    assert found is not None
    assert found.first_open_offset == 10
    assert found.ends() == {7: ProducerEnd(0, 14)}
    assert found.expire(now_ms=10**12, after_ms=1) == 0
    found.end_transaction(transactional(15, control=True), EndMarker(ControlType.COMMIT, 0))
    assert found.expire(now_ms=10**12, after_ms=1) == 1


def test_an_epoch_below_none_is_refused_also_from_an_unknown_producer() -> None:
    refused = ProducerStates().check(header(0, epoch=-2))
    assert isinstance(refused, SequenceRefused)
    assert refused.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert ProducerStates().check(header(9, epoch=-1)) is None


def test_after_no_epoch_any_sequence_will_do() -> None:
    states = after(header(5, epoch=-1))
    assert states.check(header(100, epoch=-1)) is None
    assert states.check(header(100, epoch=3)) is None
    assert isinstance(states.check(header(5, epoch=-1)), ProducerBatch)


def test_plain_batches_are_refused_while_a_transaction_is_open() -> None:
    states = ProducerStates()
    states.note(transactional(0, 3, producer_id=11))
    refused = states.check(header(3))
    assert isinstance(refused, SequenceRefused)
    assert refused.error is ErrorCode.INVALID_TXN_STATE
    assert states.check(header(3, attributes=TRANSACTIONAL_BIT)) is None


def test_a_last_batch_without_a_sequence_survives_the_snapshot() -> None:
    states = ProducerStates()
    states.note(header(NO_SEQUENCE, offset=40, attributes=TRANSACTIONAL_BIT))
    found = ProducerStates.decode(states.encode())
    assert found is not None
    assert found.ends() == {11: ProducerEnd(0, 42)}


def test_batches_that_did_not_begin_their_transaction() -> None:
    def see(first_sequence: int, epoch: int = 0, *, bumps_epoch: bool = False) -> tuple[int, bool]:
        return states.see_unverified(7, epoch, first_sequence, bumps_epoch=bumps_epoch)

    states = ProducerStates()
    assert [see(5), see(7), see(3), see(4)] == [(5, False), (5, False), (3, False), (3, False)]
    assert see(9, epoch=1, bumps_epoch=True) == (9, False), "a new epoch begins again; the kind of client is that of the first batch"
    states.note(transactional(0))
    assert see(6, epoch=1, bumps_epoch=True) == (6, True), "forgotten with the first that is appended"
    states.forget_unverified(7, 1, is_bumped=True)
    assert see(8, epoch=1) == (6, True), "a marker of the transaction before does not forget what came for the next one"
    states.forget_unverified(7, 2, is_bumped=True)
    assert see(8, epoch=2) == (8, False)
    states.forget_unverified(7, 2, is_bumped=False)
    assert see(9, epoch=2) == (9, False)


@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL_BIT])
def test_no_batch_overtakes_one_that_did_not_begin_its_transaction(attributes: int) -> None:
    """Neither one outside transactions, which begins none (Kafka: `ProducerAppendInfo.checkSequence`)."""
    states = ProducerStates()
    assert states.check(header(3, attributes=attributes)) is None
    states.see_unverified(11, 0, 0, bumps_epoch=False)
    refused = states.check(header(3, attributes=attributes))
    assert isinstance(refused, SequenceRefused)
    assert refused.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert "3 (incoming seq. number), 0 (earliest seen sequence)" in refused.message
    assert states.check(header(0, attributes=attributes)) is None
    states.note(header(0))
    assert isinstance(states.check(header(3, attributes=attributes)), SequenceRefused), "a batch outside transactions begins none"
    states.forget_unverified(11, 1, is_bumped=True)
    assert states.check(header(3, attributes=attributes)) is None


def test_the_first_batch_of_a_new_producer_whose_epoch_rises_has_the_sequence_0() -> None:
    """KAFKA-18202."""
    states = ProducerStates()
    states.see_unverified(11, 0, 3, bumps_epoch=True)
    refused = states.check(header(3, attributes=TRANSACTIONAL_BIT))
    assert isinstance(refused, SequenceRefused)
    assert "new idempotent producer: 11: 3" in refused.message
    assert states.check(header(0, attributes=TRANSACTIONAL_BIT)) is None


def test_so_many_producers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "UNVERIFIED_MAX", 3)
    states = ProducerStates()
    for producer_id in (1, 2, 3, 4):
        states.see_unverified(producer_id, 0, 5, bumps_epoch=False)
    assert states.see_unverified(4, 0, 9, bumps_epoch=False).lowest_sequence == 5
    assert states.see_unverified(1, 0, 9, bumps_epoch=False).lowest_sequence == 9
