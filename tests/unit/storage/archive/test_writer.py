"""Tests of an archive that is written to: it begins, goes on, and refuses what is not its own."""

import json
from pathlib import Path

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header
from ottla.core.records.merged_batches import Batch
from ottla.storage.archive.layout import read_manifest
from ottla.storage.archive.writer import ArchiveWriter
from ottla.storage.files import OsFiles


def batch(offset: int) -> Batch:
    data = bytes(encode_batch([Record(offset, 0, b"k", b"v")], base_offset=offset))
    return Batch(read_header(data), data)


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = ArchiveWriter(OsFiles(tmp_path), now_ms=5)
    assert first.positions("t") == {}
    assert first.append("t", 3, [batch(7)]) > 0
    first.append_lines([b"{}"])
    first.check_topic("t", "id")
    first.close()
    again = ArchiveWriter(OsFiles(tmp_path), now_ms=9)
    assert again.positions("t") == {3: 8}
    assert again.manifest.created_ms == 5
    again.append("t", 4, [batch(0)])
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
