"""Tests of a partition's log in an archive: it goes on where it stopped, whatever a kill left at its end."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header
from ottla.core.records.merged_batches import Batch
from ottla.storage.archive.batch_files import PartitionFiles
from ottla.storage.archive.partition_folders import FolderProblems, read_batches
from ottla.storage.memory_files import MemoryFiles


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
