"""Any file of a data directory as items of a dump."""

from collections.abc import Callable
from struct import pack
from uuid import UUID

import pytest

from ottla.log.checkpoints import EpochStart, encode_leader_epochs, encode_offsets, encode_partition_metadata
from ottla.log.dump.batches import BatchItem, Entry, FindingItem, Item, Note
from ottla.log.dump.report import TEXT_BYTES_MAX, FileKind, files_in, kind_of
from ottla.log.file_system import MemoryFiles
from ottla.log.index import AbortedTransaction, encode_transactions
from ottla.log.producer_state import ProducerStates
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch, read_header

NAME = "00000000000000000100"
INDEX, TIMES, LOG = NAME + ".index", NAME + ".timeindex", NAME + ".log"
Dumped = Callable[..., list[Item]]
Rewrite = Callable[[str, Callable[[bytearray], object]], None]
Faults = Callable[[list[Item]], list[str]]


def test_sound_entries_of_the_offset_index(dumped: Dumped) -> None:
    items = dumped(INDEX)
    assert [item.values["offset"] for item in items if isinstance(item, Entry)] == [102, 105, 108, 111, 114]
    assert len(items) == 5


def test_sound_entries_of_the_time_index(dumped: Dumped) -> None:
    items = dumped(TIMES)
    assert items[:2] == [Entry({"timestamp": 1002, "offset": 102}), Entry({"timestamp": 1012, "offset": 105})]
    assert len(items) == 5


@pytest.mark.parametrize(("name", "entry_bytes"), [(INDEX, 8), (TIMES, 12)])
def test_kafkas_zeros_behind_the_last_entry_are_no_entries(
    dumped: Dumped, rewrite: Rewrite, files: MemoryFiles, name: str, entry_bytes: int
) -> None:
    sound = dumped(name)
    rewrite(name, lambda data: data.extend(bytes(entry_bytes * 1000)))
    assert dumped(name) == sound
    files.replace(f"t-0/{name}", bytes(entry_bytes * 1000))
    assert dumped(name) == ([Note(f"{name} is empty.")] if name == INDEX else [])


def test_entries_behind_zeros_are_a_fault(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.extend(bytes(8 * 300_000) + pack(">ii", 1, 1)))
    assert faults(dumped(INDEX)) == ["entries follow zeros at position 40"]


@pytest.mark.parametrize(("name", "entry_bytes"), [(INDEX, 8), (TIMES, 12)])
def test_a_torn_index_lists_what_is_whole(dumped: Dumped, rewrite: Rewrite, faults: Faults, name: str, entry_bytes: int) -> None:
    rewrite(name, lambda data: data.__delitem__(slice(-1, None)))
    items = dumped(name)
    assert sum(isinstance(item, Entry) for item in items) == 4
    assert faults(items) == [f"its {5 * entry_bytes - 1} bytes are no multiple of {entry_bytes}"]


def test_an_entry_that_the_log_does_not_bear_out(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.__setitem__(slice(8, 12), pack(">i", 6)))
    items = dumped(INDEX)
    assert FindingItem(f"Mismatches in :{INDEX}", "  Index offset: 106, log offset: 105") in items
    rewrite(INDEX, lambda data: data.__setitem__(slice(36, 40), pack(">i", 1 << 30)))
    assert f"Index offset: 114, no batch lies at position {1 << 30} of the log" in faults(dumped(INDEX))
    rewrite(INDEX, lambda data: data.__setitem__(slice(36, 40), pack(">i", -5)))
    assert "Index offset: 114, no batch lies at position -5 of the log" in faults(dumped(INDEX))


def test_entries_that_do_not_rise(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(INDEX, lambda data: data.extend(data[:8]))
    assert faults(dumped(INDEX))[0].startswith("offset 102 at position 0 follows offset 114")
    rewrite(TIMES, lambda data: data.extend(data[:12]))
    assert faults(dumped(TIMES)) == ["Index timestamp: 1002, Previously indexed timestamp: 1042", "offset 102 follows offset 114"]


def test_a_wrong_timestamp_and_an_offset_that_ends_no_batch(dumped: Dumped, rewrite: Rewrite, faults: Faults) -> None:
    rewrite(TIMES, lambda data: data.__setitem__(slice(12, 24), pack(">qi", 1013, 5)))
    assert faults(dumped(TIMES)) == ["Index timestamp: 1013, log timestamp: 1012"]
    rewrite(TIMES, lambda data: data.__setitem__(slice(12, 24), pack(">qi", 1012, 4)))
    assert faults(dumped(TIMES)) == ["Indexed offset: 104, found log offset: 105"]
    rewrite(TIMES, lambda data: data.extend(pack(">qi", 2000, 50)))
    assert faults(dumped(TIMES))[-1] == "Indexed offset: 150, found log offset: -1"


def test_only_what_is_wrong(dumped: Dumped, rewrite: Rewrite) -> None:
    assert dumped(INDEX, with_entries=False) == dumped(TIMES, with_entries=False) == []
    rewrite(INDEX, lambda data: data.__setitem__(slice(8, 12), pack(">i", 6)))
    assert len(dumped(INDEX, with_entries=False)) == 1


def test_the_sanity_check_needs_no_log_and_says_so_when_all_is_well(files: MemoryFiles, dumped: Dumped, rewrite: Rewrite) -> None:
    files.remove(f"t-0/{LOG}")
    assert dumped(INDEX, is_sanity_check=True) == [Note(f"{INDEX} passed sanity check.")]
    assert dumped(TIMES, is_sanity_check=True) == [Note(f"{TIMES} passed sanity check.")]
    rewrite(INDEX, lambda data: data.extend(data[:8]))
    (finding,) = dumped(INDEX, is_sanity_check=True)
    assert isinstance(finding, FindingItem)


def test_without_its_log_an_index_is_listed_and_the_log_is_missed(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    files.remove(f"t-0/{LOG}")
    items = dumped(INDEX)
    assert faults(items) == [f"there is no {LOG} beside it"]
    assert sum(isinstance(item, Entry) for item in items) == 5


def test_a_batch_larger_than_allowed(dumped: Dumped, faults: Faults) -> None:
    assert len(faults(dumped(INDEX, batch_bytes_max=70))) == 5
    assert not faults(dumped(INDEX, batch_bytes_max=100_000))


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


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000000.log", FileKind.LOG),
        ("00000000000000000000.log.deleted", FileKind.LOG),
        ("00000000000000000000.index.swap", FileKind.OFFSET_INDEX),
        ("00000000000000000000.timeindex.cleaned", FileKind.TIME_INDEX),
        ("00000000000000000000.txnindex", FileKind.TRANSACTION_INDEX),
        ("00000000000000000042.snapshot.deleted", FileKind.PRODUCER_SNAPSHOT),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCHS),
        ("recovery-point-offset-checkpoint", FileKind.OFFSETS),
        ("log-start-offset-checkpoint", FileKind.OFFSETS),
        ("replication-offset-checkpoint", FileKind.OFFSETS),
        ("cleaner-offset-checkpoint", FileKind.OFFSETS),
        ("partition.metadata", FileKind.PARTITION_METADATA),
        ("meta.properties", FileKind.PROPERTIES),
        ("00000000000000000007-0000000001.checkpoint", FileKind.METADATA_SNAPSHOT),
        ("README.md", None),
        (".log", None),
        (".lock", None),
    ],
)
def test_what_a_name_says(name: str, kind: FileKind | None) -> None:
    assert kind_of(name) is kind


def test_a_directory_is_dumped_segment_by_segment() -> None:
    names = ["partition.metadata", "9.timeindex", "10.log", "09.index", "09.log", "09.timeindex", "x.txt", "leader-epoch-checkpoint"]
    assert files_in(names) == [
        *("09.log", "09.index", "09.timeindex", "10.log", "9.timeindex"),
        *("leader-epoch-checkpoint", "partition.metadata"),
    ]


def test_an_index_that_is_being_made_is_compared_with_the_log_of_its_kind(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    for suffix in (".log", ".index"):
        files.rename(f"t-0/00000000000000000100{suffix}", f"t-0/00000000000000000100{suffix}.cleaned")
    assert not faults(dumped("00000000000000000100.index.cleaned"))


def test_an_index_without_an_offset_in_its_name(files: MemoryFiles, dumped: Dumped, faults: Faults) -> None:
    files.rename("t-0/00000000000000000100.index", "t-0/copy.index")
    items = dumped("copy.index")
    assert faults(items)[0].startswith("its entries count from the offset in the name")
    assert [item.values["offset"] for item in items if isinstance(item, Entry)] == [2, 5, 8, 11, 14]


def test_a_log_may_have_any_name(files: MemoryFiles, dumped: Dumped) -> None:
    files.rename("t-0/00000000000000000100.log", "t-0/copy.log")
    assert sum(isinstance(item, BatchItem) for item in dumped("copy.log")) == 5


def test_the_titles_of_metadata_snapshots(files: MemoryFiles, dumped: Dumped) -> None:
    for name in ("bootstrap.checkpoint", "00000000000000000007-0000000001.checkpoint", "odd.checkpoint"):
        files.open(f"t-0/{name}")
    assert dumped("bootstrap.checkpoint") == [Note("KRaft bootstrap snapshot")]
    assert dumped("00000000000000000007-0000000001.checkpoint") == [Note("Snapshot end offset: 7, epoch: 1")]
    assert dumped("odd.checkpoint") == []


def test_unknown_and_missing_files_are_sentences(dumped: Dumped, faults: Faults) -> None:
    assert len(faults(dumped("README.md"))) == 1
    assert "not there any more" in faults(dumped("00000000000000000999.log"))[0]
