"""Removing: later, or when the broker stops; what is gone already is no trouble, and what cannot go is named."""

import asyncio

import pytest

from ottla.broker.logs.removals import Removals, is_deleted_directory
from ottla.core.errors import StorageError
from ottla.storage.memory_files import MemoryFiles


def files_with(*paths: str) -> MemoryFiles:
    files = MemoryFiles()
    for path in paths:
        files.make_directory(path.partition("/")[0])
        files.open(path).append(b"x")
    return files


def test_files_and_directories_go_after_their_delay() -> None:
    async def run() -> None:
        files = files_with("t-0/0.log.deleted", "u-0.1-delete/0.log")
        removals = Removals(files)
        removals.remove_later(("t-0/0.log.deleted",), 20)
        removals.remove_later(("u-0.1-delete",), 20)
        removals.remove_later((), 20)
        await asyncio.sleep(0)
        assert files.exists("t-0/0.log.deleted")
        async with asyncio.timeout(60):
            while files.exists("t-0/0.log.deleted") or files.exists("u-0.1-delete"):
                await asyncio.sleep(0.005)
        removals.close()

    asyncio.run(run())


def test_the_end_does_not_wait_for_the_delay() -> None:
    async def run() -> None:
        files = files_with("t-0/0.log.deleted", "t-0/0.log")
        removals = Removals(files)
        removals.remove_later(("t-0/0.log.deleted", "t-0/gone.deleted"), 2**62)
        removals.close()
        assert files.list("t-0") == ["0.log"]

    asyncio.run(run())


def test_what_cannot_be_removed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class ReadOnly(MemoryFiles):
        def remove(self, path: str) -> None:
            raise StorageError(f"cannot remove {path}: the file system is read-only")

    files = ReadOnly()
    files.make_directory("t-0")
    files.open("t-0/0.log.deleted")
    removals = Removals(files)
    removals.remove_now(["t-0/0.log.deleted"])
    removals.close()
    assert "t-0/0.log.deleted is not removed until the next start: cannot remove t-0/0.log.deleted" in caplog.text


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        ("t-0.0123456789abcdef0123456789abcdef-delete", True),
        ("a.b-c-12.0123456789abcdef0123456789abcdef-delete", True),
        ("photos-to-delete", False),
        ("t-0-delete", False),
        ("t-delete-0", False),
        ("t-0.0123456789abcdef0123456789abcdef-stray", False),
    ],
)
def test_only_directories_that_a_broker_renamed_are_removed(name: str, is_ours: bool) -> None:
    assert is_deleted_directory(name) is is_ours
