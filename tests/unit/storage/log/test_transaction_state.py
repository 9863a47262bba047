"""Control batches in the log: markers, other kinds, damage."""

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker, encode_end_marker
from ottla.storage.log.durability import Durability
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import Segment
from ottla.storage.log.transaction_index import AbortedTransaction
from ottla.storage.log.transaction_state import TransactionState, read_end_marker
from ottla.storage.memory_files import MemoryFiles


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
