"""Whose directory it is: made once, read ever after, and refused with a sentence that helps."""

import re

import pytest

from ottla.broker.metadata.meta_properties import identify
from ottla.log.checkpoints import META_PROPERTIES
from ottla.log.file_system import MemoryFiles
from ottla.protocol.errors import StorageError

KAFKAS = b"#\n#Sat Nov 21 16:58:08 UTC 2026\nnode.id=1\ndirectory.id=Dnbhe9euQOueYWf09wF0QA\nversion=1\ncluster.id=a4NPSR88w9IV_yapR9ghJw\n"


def test_a_new_directory_gets_its_ids_once() -> None:
    files = MemoryFiles()
    made = identify(files, 1)
    assert made.is_new
    text = files.read_all(META_PROPERTIES).decode()
    assert re.fullmatch(r"version=1\ncluster\.id=[\w-]{22}\nnode\.id=1\ndirectory\.id=[\w][\w-]{21}\n", text)
    assert identify(files, 1) == made._replace(is_new=False)
    assert files.read_all(META_PROPERTIES).decode() == text


def test_what_kafkas_tool_wrote_is_read_and_left_alone() -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, KAFKAS)
    found = identify(files, 1)
    assert (found.cluster_id, found.directory_id.hex()) == ("a4NPSR88w9IV_yapR9ghJw", "0e76e17bd7ae40eb9e6167f4f7017440")
    assert files.read_all(META_PROPERTIES) == KAFKAS


def test_a_directory_from_before_directory_ids_gets_one() -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, b"version=1\ncluster.id=c\nnode.id=1\n")
    found = identify(files, 1)
    assert (found.cluster_id, len(found.directory_id)) == ("c", 16)
    assert identify(files, 1) == found


@pytest.mark.parametrize(
    "name", ["flights-0/0.log", "__cluster_metadata-0/0.log", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"]
)
def test_data_without_the_file_are_refused_and_it_is_not_made(name: str) -> None:
    files = MemoryFiles()
    directory, slash, _ = name.partition("/")
    if slash:
        files.make_directory(directory)
    files.replace(name, b"x")
    with pytest.raises(
        StorageError, match=rf"meta.properties is missing, but the directory holds data \({re.escape(directory)}\): restore"
    ):
        identify(files, 1)
    assert not files.exists(META_PROPERTIES)


def test_files_of_others_do_not_make_a_directory_used() -> None:
    files = MemoryFiles()
    files.replace(".lock", b"")
    files.replace("README.txt", b"x")
    files.make_directory("lost+found")
    assert identify(files, 1).is_new


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"version=1\n", "names no cluster.id"),
        (b"cluster.id=x\nnode.id=1\n", "version=1"),
        (b"version=1\ncluster.id=x\nnode.id=7\n", "belongs to node 7, but this broker is node 1: set node.id=7"),
        (b"version=0\nbroker.id=1\ncluster.id=x\n", "with ZooKeeper"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=abc\n", "an invalid directory.id"),
        (b"\xff\xfe", "names no cluster.id"),
    ],
)
def test_a_directory_that_is_not_ours_is_left_alone(text: bytes, words: str) -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, text)
    with pytest.raises(StorageError, match=words):
        identify(files, 1)
    assert files.read_all(META_PROPERTIES) == text
