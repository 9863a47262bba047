"""Tests of reading copied partition folders: in order, whole, and whatever state they are in."""

from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.compression import Codec
from ottla.storage.archive.partition_folders import FolderProblems, find_partitions, partition_of, read_batches, topic_names
from ottla.storage.checkpoints import METADATA_FILE, encode_partition_metadata
from ottla.storage.files import OsFiles
from ottla.storage.memory_files import MemoryFiles

TOPIC_ID = UUID(bytes=bytes(range(16)))


def batch(*offsets: int, codec: Codec = Codec.NONE) -> bytes:
    return bytes(encode_batch([Record(offset, 0, b"k", b"v") for offset in offsets], base_offset=offsets[0], codec=codec))


def folder(**segments: bytes) -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("t-0")
    for name, data in segments.items():
        files.replace(f"t-0/{int(name[1:]):020d}.log", data)
    return files


def test_folders_of_a_topic_and_no_others(tmp_path: Path) -> None:
    for name in ("t-0", "t-12", "t-1-0", "other-0", "t-3.0123456789abcdef0123456789abcdef-delete", "t"):
        (tmp_path / name).mkdir()
    assert find_partitions(OsFiles(tmp_path), "t") == {0: "t-0", 12: "t-12"}
    assert partition_of("__consumer_offsets-49", "__consumer_offsets") == 49
    assert partition_of("__consumer_offsets", "__consumer_offsets") is None


def test_topic_ids_have_names() -> None:
    files = MemoryFiles()
    for name in ("t-0", "t-1", "u-0", "u-1"):
        files.make_directory(name)
    files.replace(f"t-0/{METADATA_FILE}", encode_partition_metadata(TOPIC_ID))
    files.replace(f"u-0/{METADATA_FILE}", b"damaged")
    assert topic_names(files) == {"AAECAwQFBgcICQoLDA0ODw": "t"}


def test_segments_come_in_the_order_of_their_offsets() -> None:
    files = folder(_10=batch(10, 11), _0=batch(0, 1, codec=Codec.ZSTD) + batch(2, codec=Codec.GZIP))
    problems = FolderProblems()
    assert [each.header.base_offset for each in read_batches(files, "t-0", problems)] == [0, 2, 10]
    assert problems == FolderProblems()


def test_damage_is_counted_and_what_follows_is_read() -> None:
    broken = bytearray(batch(1))
    broken[-1] ^= 1
    old = b"\0" * 7 + b"\2" + (22).to_bytes(4) + b"\0" * 4 + b"\1" + b"\0" * 17
    files = folder(_0=batch(0) + broken + old + batch(3) + batch(4)[:69], _5=batch(5))
    problems = FolderProblems()
    assert [each.header.base_offset for each in read_batches(files, "t-0", problems)] == [0, 3, 5]
    assert (problems.damaged_batches, problems.torn_bytes) == (2, 69)


def test_a_folder_that_is_not_there_is_empty() -> None:
    assert list(read_batches(MemoryFiles(), "t-0", FolderProblems())) == []


@given(st.binary(max_size=200), st.integers(0, 150))
def test_any_bytes_are_counted_and_never_raise(data: bytes, cut: int) -> None:
    problems = FolderProblems()
    found = list(read_batches(folder(_0=batch(0) + data, _1=batch(1)[:cut]), "t-0", problems))
    assert found[0].header.base_offset == 0
