"""What is known of producers when a log is opened: the newest whole snapshot, and the batches behind it."""

import pytest

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header
from ottla.core.records.control import ControlType
from ottla.core.records.end_marker import EndMarker, encode_end_marker
from ottla.storage.log.producer_recovery import ProducerRecovery
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import Segment
from ottla.storage.log.transaction_index import AbortedTransaction, decode_transactions, encode_transactions
from ottla.storage.memory_files import MemoryFiles


class Case:
    """A segment whose producers 0 to 4 have appended one record each, and the snapshots after 2 and 4 of them."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segment = Segment(self.files, "t-0", 0, index_interval_bytes=4096, made_ms=0)
        self.segment.create()
        states = ProducerStates()
        for number in range(5):
            if number in (2, 4):
                self.files.replace(f"t-0/{number:020d}.snapshot", states.encode())
            batch = encode_batch([Record(number, 1, None, b"x")], base_offset=number, producer_id=number, producer_epoch=0, base_sequence=0)
            self.append(batch, number)
            states.note(read_header(batch))
        self.recovery = ProducerRecovery(self.files, "t-0")

    def append(self, batch: bytes | bytearray, last_offset: int) -> None:
        self.segment.append(batch)
        self.segment.note(last_offset, 1, len(batch))

    def load(self, at_most: int | None = None) -> tuple[int, int]:
        self.recovery.load_snapshot(self.files.list("t-0"), at_most=at_most)
        return self.recovery.snapshot_offset, len(self.recovery.producers)

    def snapshots(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.files.list("t-0") if name.endswith(".snapshot"))


@pytest.fixture
def case() -> Case:
    return Case()


def test_the_newest_whole_snapshot_counts_and_those_above_it_are_removed(case: Case) -> None:
    assert (case.load(), case.snapshots()) == ((4, 4), [2, 4])
    assert (case.load(at_most=3), case.snapshots()) == ((2, 2), [2])
    case.files.replace("t-0/00000000000000000009.snapshot", b"damaged")
    assert (case.load(), case.snapshots()) == ((2, 2), [2])
    case.recovery.clear()
    assert (case.recovery.snapshot_offset, len(case.recovery.producers)) == (-1, 0)


def test_only_batches_behind_the_snapshot_are_added(case: Case) -> None:
    case.load(at_most=2)
    for position, header in case.segment.batches():
        case.recovery.add(case.segment, position, header)
    assert len(case.recovery.producers) == 5
    assert case.recovery.producers.ends()[4].last_offset == 4


def test_a_log_that_ends_before_its_snapshot_goes_back_to_an_older_one(case: Case) -> None:
    case.load()
    case.recovery.end_at([case.segment], [case.segment], 3, 0)
    assert (case.recovery.snapshot_offset, case.snapshots()) == (2, [2])
    assert len(case.recovery.producers) == 5, "what the segment holds is read again from there"


def test_transaction_indexes_say_what_the_markers_say(case: Case) -> None:
    index = "t-0/00000000000000000000.txnindex"
    stale = AbortedTransaction(8, 0, 77, 78)
    case.files.open(index).append(encode_transactions([stale]))
    assert case.recovery.load_transactions(case.files.list("t-0"))
    of_producer = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    case.append(encode_batch([Record(5, 1, None, b"x")], base_offset=5, base_sequence=0, **of_producer), 5)  # type: ignore[arg-type]
    key, value = encode_end_marker(EndMarker(ControlType.ABORT, 0))
    case.append(encode_batch([Record(6, 1, key, value)], base_offset=6, is_control=True, **of_producer), 6)  # type: ignore[arg-type]
    case.recovery.aborted.clear()
    for position, header in case.segment.batches():
        case.recovery.add(case.segment, position, header)
    case.recovery.end_at([case.segment], [case.segment], 7, 0)
    assert decode_transactions(case.files.read_all(index)) == [AbortedTransaction(9, 5, 6, 7)]
    case.recovery.end_at([case.segment], [case.segment], 6, 0)
    assert not case.files.exists(index), "its marker was cut"
    case.files.open(index).append(b"damaged")
    assert not case.recovery.load_transactions(case.files.list("t-0"))


def test_snapshots_that_belong_to_no_segment_are_removed(case: Case) -> None:
    case.files.replace("t-0/00000000000000000003.snapshot", b"")
    case.load()
    case.recovery.remove_stray_snapshots([0, 2])
    assert case.snapshots() == [2, 4]
