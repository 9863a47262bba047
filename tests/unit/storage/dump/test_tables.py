"""The small files: those that our own code writes are read back, damage is reported beside what can be read."""

from collections.abc import Callable
from uuid import UUID

import pytest

from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import encode_batch, read_header
from ottla.storage.checkpoints import EpochStart, encode_leader_epochs, encode_offsets, encode_partition_metadata
from ottla.storage.dump.items import Entry, Item, Note
from ottla.storage.dump.tables import TEXT_BYTES_MAX
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.transaction_index import AbortedTransaction, encode_transactions
from ottla.storage.memory_files import MemoryFiles

Dumped = Callable[..., list[Item]]
Rewrite = Callable[[str, Callable[[bytearray], object]], None]
Faults = Callable[[list[Item]], list[str]]
SNAPSHOT = "00000000000000000042.snapshot"


@pytest.fixture
def write(files: MemoryFiles) -> Callable[[str, bytes], None]:
    return lambda name, data: files.replace(f"t-0/{name}", data)


def test_aborted_transactions(write: Callable[[str, bytes], None], dumped: Dumped, faults: Faults) -> None:
    data = encode_transactions([AbortedTransaction(7, 10, 20, 21), AbortedTransaction(8, 5, 30, 31)])
    write("0.txnindex", data)
    first, second = dumped("0.txnindex")
    assert first == Entry({"version": 0, "producerId": 7, "firstOffset": 10, "lastOffset": 20, "lastStableOffset": 21})
    assert isinstance(second, Entry)
    write("0.txnindex", data + data[:34] + b"x")
    assert len(faults(dumped("0.txnindex"))) == 2


def snapshot() -> bytes:
    states = ProducerStates()
    records = [Record(offset, 5000, None, b"", ()) for offset in (40, 41)]
    states.note(read_header(encode_batch(records, base_offset=40, producer_id=3, producer_epoch=1, base_sequence=2**31 - 1)))
    return states.encode()


def test_producers(write: Callable[[str, bytes], None], dumped: Dumped) -> None:
    write(SNAPSHOT, snapshot())
    assert dumped(SNAPSHOT) == [
        Entry(
            {
                "producerId": 3,
                "producerEpoch": 1,
                "coordinatorEpoch": -1,
                "currentTxnFirstOffset": None,
                "lastTimestamp": 5000,
                "firstSequence": 2**31 - 1,
                "lastSequence": 0,
                "lastOffset": 41,
                "offsetDelta": 1,
                "timestamp": 5000,
            }
        )
    ]
    write(SNAPSHOT, ProducerStates().encode())
    assert dumped(SNAPSHOT) == []


@pytest.mark.parametrize(
    ("change", "words", "entries"),
    [
        (lambda data: data.__setitem__(20, 99), "CRC is no longer valid", 1),
        (lambda data: data.__setitem__(1, 9), "unknown file version 9", 0),
        (lambda data: data.__delitem__(slice(-3, None)), "claims 1 producers and has room for 0", 0),
        (lambda data: data.__delitem__(slice(5, None)), "it has 5 bytes", 0),
        (lambda data: data.__setitem__(6, 0xFF), "claims -", 0),
    ],
)
def test_damaged_snapshots(
    write: Callable[[str, bytes], None],
    rewrite: Rewrite,
    dumped: Dumped,
    faults: Faults,
    change: Callable[[bytearray], object],
    words: str,
    entries: int,
) -> None:
    write(SNAPSHOT, snapshot())
    rewrite(SNAPSHOT, change)
    items = dumped(SNAPSHOT)
    assert any(words in text for text in faults(items))
    assert sum(isinstance(item, Entry) for item in items) == entries


def test_checkpoints(write: Callable[[str, bytes], None], dumped: Dumped, faults: Faults) -> None:
    write("leader-epoch-checkpoint", encode_leader_epochs([EpochStart(0, 0), EpochStart(4, 17)]))
    assert dumped("leader-epoch-checkpoint") == [Entry({"epoch": 0, "startOffset": 0}), Entry({"epoch": 4, "startOffset": 17})]
    write("cleaner-offset-checkpoint", encode_offsets({TopicPartition("t", 3): 99}))
    assert dumped("cleaner-offset-checkpoint") == [Entry({"topic": "t", "partition": 3, "offset": 99})]
    for name in ("leader-epoch-checkpoint", "cleaner-offset-checkpoint"):
        write(name, b"0\n2\nwhat 1\n")
        assert len(faults(dumped(name))) == 1
        write(name, b"")
        assert dumped(name) == [Note(f"{name} is empty.")]


def test_properties(write: Callable[[str, bytes], None], dumped: Dumped, faults: Faults) -> None:
    write("partition.metadata", encode_partition_metadata(UUID(bytes=bytes(range(16)))))
    assert dumped("partition.metadata") == [Entry({"version": "0", "topic_id": "AAECAwQFBgcICQoLDA0ODw"})]
    write("meta.properties", b"#Sat Nov 21\n\ncluster.id=abc\nnode.id=1\n")
    assert dumped("meta.properties") == [Entry({"cluster.id": "abc", "node.id": "1"})]
    write("meta.properties", b"nothing of the kind\xff")
    assert faults(dumped("meta.properties")) == ["line 1 is no name and value", "it says nothing"]


def test_a_text_that_is_far_too_large_is_not_read(write: Callable[[str, bytes], None], dumped: Dumped, faults: Faults) -> None:
    write("meta.properties", bytes(TEXT_BYTES_MAX + 1))
    assert faults(dumped("meta.properties")) == [f"{TEXT_BYTES_MAX + 1} bytes are too many for a file of this kind"]
