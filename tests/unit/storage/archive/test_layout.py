"""Tests of the file that says what an archive is of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import StorageError
from ottla.storage.archive.layout import MANIFEST_FILE, Manifest, read_manifest, write_manifest
from ottla.storage.memory_files import MemoryFiles

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
