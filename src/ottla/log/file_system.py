"""Files as the log needs them (append, read a range, sync, rename): the interface, and `MemoryFiles`; on the disk: files.py.

Bytes are not interpreted here. Paths are relative, with `/`. An error of the operating system becomes a StorageError whose message says
what to do about it.
"""

import errno
from collections.abc import Callable
from typing import Final, Protocol

from ottla.protocol.errors import NotAccessible, StorageError

Buffer = bytes | bytearray | memoryview
Identity = tuple[int, int]
"""Of a file: its device and its number there."""

TOO_MANY: Final = (errno.EMFILE, errno.ENFILE)
_NOT_ACCESSIBLE: Final = (*TOO_MANY, errno.EACCES, errno.EPERM)
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


class LogFileChanged(StorageError):
    """A log's file is gone, or shorter than what was written to it: another program did that, and its log must take no more records."""

    def __init__(self, path: str, size: int | None, written: int) -> None:
        what = "is gone" if size is None else f"has {size} of the {written} bytes that were written to it"
        did = "deleted or moved it or its directory" if size is None else "truncated it"
        super().__init__(f"{path} {what}: another program {did}; start the broker again")


class LogFileDamaged(StorageError):
    """Where a batch of a log should begin there is none: what lies behind it cannot be found, and the next start may cut it off."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(f"{path} is damaged at byte {position}: no record batch begins there; restore it from a copy")
        self.path = path


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
        """Write the buffers at the end in one call; the position where they begin. After a StorageError the size is what it was.

        LogFileChanged where another program made the file shorter than `size`: nothing is written behind a hole.
        """
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
    kind = NotAccessible if error.errno in _NOT_ACCESSIBLE else StorageError
    return kind(f"cannot {action} {path}: {advice}")


_MEMORY_CHUNK_BYTES: Final = 256 * 1024


class MemoryFile:
    """A file in memory, in chunks: the cost of an append or read depends on its own size alone."""

    __slots__ = ("_chunks", "size")

    def __init__(self) -> None:
        self._chunks: list[bytearray] = []
        self.size = 0

    def append(self, *buffers: Buffer) -> int:
        position = self.size
        for buffer in buffers:
            self._append(buffer)
        return position

    def _append(self, buffer: Buffer) -> None:
        space = -self.size % _MEMORY_CHUNK_BYTES
        if 0 < len(buffer) <= space:
            self._chunks[-1] += buffer
        else:
            with memoryview(buffer) as view:
                if space:
                    self._chunks[-1] += view[:space]
                for start in range(space, len(view), _MEMORY_CHUNK_BYTES):
                    self._chunks.append(bytearray(view[start : start + _MEMORY_CHUNK_BYTES]))
        self.size += len(buffer)

    def read(self, position: int, length: int, *, wait: bool = True) -> bytes:
        end = min(position + length, self.size)
        if end <= position:
            return b""
        first, at = divmod(position, _MEMORY_CHUNK_BYTES)
        last = (end - 1) // _MEMORY_CHUNK_BYTES
        if first == last:
            with memoryview(self._chunks[first]) as view:
                return bytes(view[at : at + end - position])
        parts = [memoryview(self._chunks[number]) for number in range(first, last + 1)]
        parts[0] = parts[0][at:]
        parts[-1] = parts[-1][: end - last * _MEMORY_CHUNK_BYTES]
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        if size > self.size:
            self._append(bytes(size - self.size))
        chunks, rest = divmod(size, _MEMORY_CHUNK_BYTES)
        del self._chunks[chunks + (rest > 0) :]
        if rest:
            del self._chunks[-1][rest:]
        self.size = size

    def sync(self) -> None:
        """No effect: memory has nothing to sync."""

    def close(self) -> None:
        """No effect: there is no descriptor to close."""


class MemoryFiles:
    """Files in memory. A new log over the same object finds the data of the old one, so tests can restart."""

    def __init__(self) -> None:
        self._directories: dict[str, dict[str, MemoryFile]] = {"": {}}

    def _place(self, action: str, path: str) -> tuple[dict[str, MemoryFile], str]:
        """The directory of `path` and the name in it."""
        directory, _, name = path.rpartition("/")
        if directory not in self._directories:
            raise _missing(action, path)
        return self._directories[directory], name

    def _file(self, action: str, path: str) -> MemoryFile:
        directory, name = self._place(action, path)
        if name not in directory:
            raise _missing(action, path)
        return directory[name]

    def open(self, path: str) -> MemoryFile:
        directory, name = self._place("open", path)
        return directory.setdefault(name, MemoryFile())

    def exists(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        return path in self._directories or name in self._directories.get(directory, ())

    def size(self, path: str) -> int:
        return self._file("look at", path).size

    def list(self, directory: str) -> list[str]:
        names = [*self._directories.get(directory, ())]
        if not directory:
            names += [path for path in self._directories if path]
        return sorted(names)

    def make_directory(self, directory: str) -> None:
        assert "/" not in directory, "a data directory is two levels deep: partition, file"
        self._directories.setdefault(directory, {})

    def check_root(self) -> None:
        """Memory cannot be deleted by another program."""

    def identity(self, path: str) -> Identity | None:
        directory, _, name = path.rpartition("/")
        file = self._directories.get(path) if path in self._directories else self._directories.get(directory, {}).get(name)
        return None if file is None else (0, id(file))

    def names_state(self, directory: str) -> object:
        return self.list(directory)

    def rename(self, old: str, new: str) -> None:
        file = self._file("rename", old)
        target, new_name = self._place("rename", new)
        source, old_name = self._place("rename", old)
        del source[old_name]
        target[new_name] = file

    def rename_directory(self, old: str, new: str) -> None:
        if old not in self._directories:
            raise _missing("rename", old)
        self._directories[new] = self._directories.pop(old)

    def remove(self, path: str) -> None:
        self._file("remove", path)
        directory, name = self._place("remove", path)
        del directory[name]

    def remove_directory(self, directory: str) -> None:
        if directory not in self._directories:
            raise _missing("remove", directory)
        del self._directories[directory]

    def read_all(self, path: str) -> bytes:
        file = self._file("read", path)
        return file.read(0, file.size)

    def read_range(self, path: str, position: int, length: int) -> bytes:
        return self._file("read", path).read(position, length)

    def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        directory, name = self._place("write", path)
        file = MemoryFile()
        file.append(data)
        directory[name] = file

    def sync(self, path: str) -> None:
        self._file("sync", path)

    def sync_directory(self, directory: str) -> None:
        """No effect: see `MemoryFile.sync`."""


def _missing(action: str, path: str) -> StorageError:
    return storage_error(action, path, FileNotFoundError(errno.ENOENT, "no such file or directory"))
