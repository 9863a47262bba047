"""A partition's directory: made once, with the topic's id; a log in use whose directory is deleted ends."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.storage.files import OsFiles
from ottla.storage.log.leader_epoch_file import make_directory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles

ID = UUID(int=7)


def test_the_topics_id_is_written_once() -> None:
    files = MemoryFiles()
    make_directory(files, "t-0", ID)
    written = files.read_all("t-0/partition.metadata")
    assert written.startswith(b"version: 0\ntopic_id: ")
    make_directory(files, "t-0", UUID(int=8))
    assert files.read_all("t-0/partition.metadata") == written


def test_without_an_id_only_the_directory_is_made() -> None:
    files = MemoryFiles()
    make_directory(files, "t-0", None)
    assert files.list("") == ["t-0"]
    assert files.list("t-0") == []


def test_a_full_segment_does_not_bring_a_deleted_directory_back(tmp_path: Path) -> None:
    log = PartitionLog(OsFiles(tmp_path), "t-0", LogSettings(segment_bytes=100))
    log.open(0)
    log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(StorageError):
        log.append_records([Record(0, 5, None, bytes(100))], now_ms=5)
    assert log.failure is not None
    assert not (tmp_path / "t-0").exists()
