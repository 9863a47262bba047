"""Files as the storage needs them: append, read a range, sync, rename. On the disk: files.py; in memory: memory_files.py.

Bytes are not interpreted here. Paths are relative, with `/`. An error of the operating system becomes a StorageError whose message says
what to do about it.
"""

import errno
from collections.abc import Callable
from typing import Final, Protocol

from ottla.core.errors import StorageError, TooManyOpenFiles

Buffer = bytes | bytearray | memoryview
Identity = tuple[int, int]
"""Of a file: its device and its number there."""

TOO_MANY: Final = (errno.EMFILE, errno.ENFILE)
_ADVICE: Final = {
    errno.ENOSPC: "the disk is full; free some space or move the data directory",
    errno.EDQUOT: "the disk quota is used up; free some space or raise the quota",
    errno.EROFS: "the file system is read-only; mount it for writing or choose another data directory",
    errno.EACCES: "permission denied; give this user access to the data directory",
    errno.EPERM: "not permitted; give this user access to the data directory",
    errno.ENOENT: "it is not there any more; was the data directory changed by another process?",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine",
    errno.EIO: "the disk reports an error; check the device",
}


class ColdRead(Exception):
    """Bytes that are to be read without waiting are not in memory, but only on the disk.

    `fill_cache` reads them into the page cache, on any thread; then the same read is likely to succeed.
    """

    def __init__(self, fill_cache: Callable[[], None]) -> None:
        super().__init__("the bytes are not in memory")
        self.fill_cache = fill_cache


class File(Protocol):
    """One open file. `size` is its length in bytes as written by this handle; there is one writer of a file."""

    @property
    def size(self) -> int: ...
    def append(self, *buffers: Buffer) -> int:
        """Write the buffers at the end in one call; the position where they begin. After a StorageError the size is what it was."""
        ...

    def read(self, position: int, length: int, *, wait: bool = True) -> bytes | bytearray:
        """At most `length` bytes from `position` on; fewer only at the end of the file. Unless `wait`, ColdRead may be raised."""
        ...

    def truncate(self, size: int) -> None: ...
    def sync(self) -> None:
        """Return when all that was written would survive a power failure."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A tree of files under one root."""

    def open(self, path: str) -> File:
        """Open for appending and reading; an empty file is made where there is none (its directory must exist)."""
        ...

    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory. The root is the empty string."""
        ...

    def make_directory(self, directory: str) -> None:
        """Make a directory in the root, if it does not exist; StorageError when the root does not exist any more."""
        ...

    def check_root(self) -> None:
        """StorageError when the root was deleted or replaced by another directory; from then on no file is made there. Any thread."""
        ...

    def identity(self, path: str) -> Identity | None:
        """Differs between this file and another one of the same name; None when no file is there. Any thread."""
        ...

    def names_state(self, directory: str) -> object:
        """Equal as long as no name in the directory was added or removed. Any thread."""
        ...

    def rename(self, old: str, new: str) -> None: ...
    def rename_directory(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_directory(self, directory: str) -> None:
        """With all files in it."""
        ...

    def read_all(self, path: str) -> bytes: ...
    def read_range(self, path: str, position: int, length: int) -> bytes:
        """At most `length` bytes of a file without a handle on it, from any thread; StorageError when it is not there."""
        ...

    def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """The file has either its old contents or all of `data`, also after a crash; with `sync` it is durable on return."""
        ...

    def sync(self, path: str) -> None:
        """Make a file's bytes durable without a handle on it; may be called from another thread."""
        ...

    def sync_directory(self, directory: str) -> None:
        """Make the names in the directory durable."""
        ...


def storage_error(action: str, path: str, error: OSError) -> StorageError:
    """The action that failed, the file, and what to do about it."""
    advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
    kind = TooManyOpenFiles if error.errno in TOO_MANY else StorageError
    return kind(f"cannot {action} {path}: {advice}")
