"""Transactions in a log: what is stable, what was aborted, and both again after a restart of any kind."""

from pathlib import Path

import pytest

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker, encode_end_marker
from ottla.storage.file_system import Files
from ottla.storage.log.aborted_transactions import AbortedTransactions
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.transaction_index import AbortedTransaction, decode_transactions
from ottla.storage.log.validation import Appended
from ottla.storage.memory_files import MemoryFiles

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
