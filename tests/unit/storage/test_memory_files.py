"""Files in memory: what is theirs alone; the rest of their face is tested beside the disk's (test_files.py)."""

import pytest

from ottla.core.errors import StorageError
from ottla.storage.memory_files import MemoryFiles

CHUNK_BYTES = 256 * 1024


def test_a_file_in_chunks_reads_as_one() -> None:
    files = MemoryFiles()
    file = files.open("f")
    whole = b""
    for size in (CHUNK_BYTES - 1, 3, CHUNK_BYTES, 2 * CHUNK_BYTES + 7, 0, 1):
        part = bytes(number % 251 for number in range(size))
        assert file.append(part[: size // 2], part[size // 2 :]) == len(whole)
        whole += part
    assert (file.size, file.read(0, 10**9)) == (len(whole), whole)
    for position in (0, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1, len(whole)):
        assert file.read(position, CHUNK_BYTES + 5) == whole[position : position + CHUNK_BYTES + 5]
    file.truncate(CHUNK_BYTES + 1)
    assert files.read_all("f") == whole[: CHUNK_BYTES + 1]


def test_a_directory_gets_another_name_with_all_that_is_in_it() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    files.open("t-0/a").append(b"x")
    files.rename_directory("t-0", "t-0.gone-delete")
    assert (files.list(""), files.read_all("t-0.gone-delete/a")) == (["t-0.gone-delete"], b"x")
    with pytest.raises(StorageError, match="not there any more"):
        files.rename_directory("t-0", "u-0")


def test_what_is_not_there_is_reported_with_advice() -> None:
    with pytest.raises(StorageError, match="cannot read t-0/a"):
        MemoryFiles().read_all("t-0/a")
