"""Tests of the file that says what an archive is of."""

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.archive import (
    MANIFEST_FILE,
    ArchiveWriter,
    FolderProblems,
    LineFiles,
    LineProblems,
    Manifest,
    PartitionFiles,
    find_partitions,
    partition_of,
    read_batches,
    read_lines,
    read_manifest,
    topic_names,
    write_manifest,
)
from ottla.log.checkpoints import METADATA_FILE, encode_partition_metadata
from ottla.log.file_system import MemoryFiles
from ottla.log.files import OsFiles
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import Batch, encode_batch, read_header
from ottla.protocol.records.compression import Codec

MANIFEST = Manifest(created_ms=5, groups=("g",), topic_ids=(("__consumer_offsets", "AAECAwQFBgcICQoLDA0ODw"),))


@pytest.mark.parametrize("manifest", [MANIFEST, Manifest(created_ms=5)])
def test_a_manifest_comes_back(manifest: Manifest) -> None:
    files = MemoryFiles()
    assert read_manifest(files) is None
    write_manifest(files, manifest)
    assert read_manifest(files) == manifest


def test_a_later_format_is_refused() -> None:
    files = MemoryFiles()
    files.replace(MANIFEST_FILE, MANIFEST.to_json().replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(StorageError, match="later version"):
        read_manifest(files)


@given(st.binary(max_size=60) | st.sampled_from([b"[]", b"{}", b'{"format":1}', b"null"]))
def test_any_other_bytes_are_no_archive(data: bytes) -> None:
    files = MemoryFiles()
    files.replace(MANIFEST_FILE, data)
    with pytest.raises(StorageError):
        read_manifest(files)


# Tests of a partition's log in an archive: it goes on where it stopped, whatever a kill left at its end.


def batch(base: int, last: int) -> Batch:
    data = bytes(encode_batch([Record(base, 0, b"k", b"v")], base_offset=base, last_offset=last))
    return Batch(read_header(data), data)


LOG = [batch(0, 0), batch(1, 4), batch(5, 5), batch(9, 12), batch(13, 13)]


def stored(files: MemoryFiles) -> list[Batch]:
    problems = FolderProblems()
    found = list(read_batches(files, "t-0", problems))
    assert problems == FolderProblems()
    return found


def test_the_position_is_in_the_files() -> None:
    files = MemoryFiles()
    first = PartitionFiles(files, "t-0")
    assert first.next_offset is None
    assert first.append(LOG[:2]) == sum(len(each.data) for each in LOG[:2])
    assert first.append([]) == 0
    first.close()
    again = PartitionFiles(files, "t-0")
    assert again.next_offset == 5
    again.append(LOG[2:])
    assert again.next_offset == 14
    assert stored(files) == LOG


def test_a_full_file_is_followed_by_another() -> None:
    files = MemoryFiles()
    log = PartitionFiles(files, "t-0", segment_bytes=100)
    for each in LOG:
        log.append([each])
    assert files.list("t-0") == [f"{base:020d}.log" for base in (0, 5, 13)]
    assert PartitionFiles(files, "t-0").next_offset == 14
    assert stored(files) == LOG


@given(st.integers(0, 400), st.binary(max_size=30), st.integers(60, 200))
def test_what_a_kill_left_is_cut_off_and_written_again(cut: int, garbage: bytes, segment_bytes: int) -> None:
    files = MemoryFiles()
    log = PartitionFiles(files, "t-0", segment_bytes=segment_bytes)
    for each in LOG:
        log.append([each])
    path = f"t-0/{files.list('t-0')[-1]}"
    files.replace(path, files.read_all(path)[:cut] + garbage)
    again = PartitionFiles(files, "t-0", segment_bytes=segment_bytes)
    again.append([each for each in LOG if each.header.base_offset >= (again.next_offset or 0)])
    assert stored(files) == LOG


# Tests of reading copied partition folders: in order, whole, and whatever state they are in.

TOPIC_ID = UUID(bytes=bytes(range(16)))


def sealed(*offsets: int, codec: Codec = Codec.NONE) -> bytes:
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
    files = folder(
        _10=sealed(10, 11),
        _0=sealed(0, 1, codec=Codec.ZSTD) + sealed(2, codec=Codec.GZIP),
    )
    problems = FolderProblems()
    assert [each.header.base_offset for each in read_batches(files, "t-0", problems)] == [0, 2, 10]
    assert problems == FolderProblems()


def test_damage_is_counted_and_what_follows_is_read() -> None:
    broken = bytearray(sealed(1))
    broken[-1] ^= 1
    old = b"\0" * 7 + b"\2" + (22).to_bytes(4) + b"\0" * 4 + b"\1" + b"\0" * 17
    files = folder(
        _0=sealed(0) + broken + old + sealed(3) + sealed(4)[:69],
        _5=sealed(5),
    )
    problems = FolderProblems()
    assert [each.header.base_offset for each in read_batches(files, "t-0", problems)] == [0, 3, 5]
    assert (problems.damaged_batches, problems.torn_bytes) == (2, 69)


def test_a_folder_that_is_not_there_is_empty() -> None:
    assert list(read_batches(MemoryFiles(), "t-0", FolderProblems())) == []


@given(st.binary(max_size=200), st.integers(0, 150))
def test_any_bytes_are_counted_and_never_raise(data: bytes, cut: int) -> None:
    problems = FolderProblems()
    found = list(read_batches(folder(_0=sealed(0) + data, _1=sealed(1)[:cut]), "t-0", problems))
    assert found[0].header.base_offset == 0


# Tests of lines in numbered files.


def stored_lines(files: MemoryFiles, problems: LineProblems | None = None) -> list[bytes]:
    return list(read_lines(files, "s", problems or LineProblems()))


def test_lines_come_back_in_order_from_several_files() -> None:
    files = MemoryFiles()
    log = LineFiles(files, "s", file_bytes=10)
    lines = [b"line %d" % number for number in range(9)]
    for line in lines[:5]:
        assert log.append([line]) == len(line) + 1
    log.append(lines[5:7])
    assert log.append([]) == 0
    log.close()
    LineFiles(files, "s").append(lines[7:])
    assert len(files.list("s")) == 4
    assert stored_lines(files) == lines


def test_a_torn_line_is_ignored_and_cut_off() -> None:
    files = MemoryFiles()
    LineFiles(files, "s").append([b"whole"])
    path = f"s/{files.list('s')[0]}"
    files.replace(path, files.read_all(path) + b'{"torn')
    problems = LineProblems()
    assert stored_lines(files, problems) == [b"whole"]
    assert problems.torn_bytes == 6
    LineFiles(files, "s").append([b"next"])
    assert stored_lines(files) == [b"whole", b"next"]


def test_a_file_without_any_newline_is_torn_altogether() -> None:
    files = MemoryFiles()
    files.make_directory("s")
    files.replace("s/00000000000000000000.jsonl", b"x" * 3_000_000)
    LineFiles(files, "s").append([b"next"])
    assert stored_lines(files) == [b"next"]


def test_long_lines_are_skipped_and_counted() -> None:
    files = MemoryFiles()
    LineFiles(files, "s").append([b"a" * 100, b"short", b"b" * 3_000_000, b"end"])
    problems = LineProblems()
    assert list(read_lines(files, "s", problems, line_bytes_max=50)) == [b"short", b"end"]
    assert problems.long_lines == 2


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=12), st.binary(max_size=9), st.integers(1, 40))
def test_whatever_was_written_comes_back(lines: list[bytes], torn: bytes, file_bytes: int) -> None:
    files = MemoryFiles()
    log = LineFiles(files, "s", file_bytes=file_bytes)
    for line in lines:
        log.append([line])
    path = f"s/{files.list('s')[-1]}"
    files.replace(path, files.read_all(path) + torn.replace(b"\n", b""))
    LineFiles(files, "s").append([b"after"])
    assert stored_lines(files) == [*lines, b"after"]


# Tests of an archive that is written to: it begins, goes on, and refuses what is not its own.


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    assert first.positions("t") == {}
    assert first.append("t", 3, [batch(7, 7)]) > 0
    first.append_lines([b"{}"])
    first.check_topic("t", "id")
    first.close()
    again = ArchiveWriter(OsFiles(tmp_path), now_ms=9)
    assert again.positions("t") == {3: 8}
    assert again.manifest.created_ms == 5
    again.append("t", 4, [batch(0, 0)])
    assert again.positions("t") == {3: 8, 4: 1}
    again.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "archive.json", "snapshots", "t-3", "t-4"]
    assert json.loads((tmp_path / "archive.json").read_text())["topic_ids"] == {"t": "id"}


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    writer = ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    writer.check_topic("t", "")  # brokers before 2.8 have no ids
    writer.check_topic("t", "id")
    writer.check_topic("t", "id")
    with pytest.raises(StorageError, match="another cluster"):
        writer.check_topic("t", "other")


def test_other_groups_are_refused(tmp_path: Path) -> None:
    ArchiveWriter(OsFiles(tmp_path), now_ms=5, groups=["b", "a"]).close()
    ArchiveWriter(OsFiles(tmp_path), now_ms=5, groups=["a", "b"]).close()
    for groups in (None, ["a"]):
        with pytest.raises(StorageError, match="the archive is of a, b"):
            ArchiveWriter(OsFiles(tmp_path), now_ms=5, groups=groups)
    manifest = read_manifest(OsFiles(tmp_path))
    assert manifest is not None
    assert manifest.groups == ("a", "b")


def test_a_directory_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StorageError, match=r"thesis\.tex"):
        ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "thesis.tex"]


def test_one_program_at_a_time(tmp_path: Path) -> None:
    writer = ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    with pytest.raises(StorageError, match="used by another ottla watch"):
        ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    writer.close()
    ArchiveWriter(OsFiles(tmp_path), now_ms=5).close()
