"""Files by their names, in order, and sentences for those that cannot be dumped."""

from collections.abc import Callable

import pytest

from ottla.log.dump.items import BatchItem, Entry, Item, Note
from ottla.log.dump.report import FileKind, files_in, kind_of
from ottla.log.file_system import MemoryFiles

Dumped = Callable[..., list[Item]]
Faults = Callable[[list[Item]], list[str]]


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
