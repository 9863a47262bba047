"""Sequences of idempotent producers (KIP-98), and the snapshot file against bytes that Apache Kafka 4.3 wrote."""

import struct

import pytest
from crc32c import crc32c

from ottla.core.errors import ErrorCode
from ottla.core.records.batch import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker
from ottla.storage.log.log_snapshot import ProducerEnd
from ottla.storage.log.producer_state import SEQUENCE_MAX, ProducerBatch, ProducerStates, SequenceRefused, last_sequence
from ottla.storage.log.transaction_index import AbortedTransaction


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
