"""Files on the disk (protocols: file_system.py), and pipes. The only file in the package that touches the disk."""

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final, TypeVar

from ottla.log.file_system import TOO_MANY, Buffer, ColdRead, Identity, LogFileChanged, storage_error
from ottla.protocol.errors import StorageError

Writer = TypeVar("Writer")

# Linux reads what is in the page cache and refuses to wait for more; elsewhere (0) a read may wait.
_NO_WAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_WARM_BYTES: Final = 1024 * 1024
_LOCK_FILE: Final = ".lock"
_SECRET: Final = ("__cluster_metadata", "bootstrap.checkpoint")
"""What begins so holds keys of users: nobody else on the machine may read it. The rest has the modes that the process's umask leaves."""


def _mode(path: str, others: int) -> int:
    return others & 0o700 if path.startswith(_SECRET) else others


def pipe(open_writer: Callable[[str], Writer]) -> tuple[FileIO, Writer]:
    """A pipe: the end to read from, and the result of `open_writer` for the path of the other end. Raises OSError."""
    reading, writing = os.pipe()
    try:
        writer = open_writer(f"/dev/fd/{writing}")
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return FileIO(reading), writer


@contextmanager
def _storage_errors(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise storage_error(action, path, error) from error


class OsFile:
    """A file on the disk, for one thread at a time. Its descriptor is opened when needed, and `OsFiles` may take it away from the thread
    that opened it."""

    __slots__ = ("_descriptor", "_files", "_opened", "_path", "size")

    def __init__(self, files: "OsFiles", path: str) -> None:
        self._files = files
        self._path = path
        self._descriptor = -1
        with _storage_errors("open", path):
            self.size = os.fstat(self._reopen(os.O_CREAT)).st_size

    def _reopen(self, flags: int = 0) -> int:
        self._files.make_room()
        self._opened = self._files.opened
        path, flags = self._files.absolute(self._path), os.O_RDWR | os.O_CLOEXEC | flags
        try:
            self._descriptor = os.open(path, flags, _mode(self._path, 0o644))
        except OSError as error:
            # Other threads took the descriptors meant for files: this thread closes one of its own files for each that it opens.
            if error.errno not in TOO_MANY or not self._opened:
                raise
            for other in list(self._opened):
                other.close()
            self._descriptor = os.open(path, flags, _mode(self._path, 0o644))
        self._opened[self] = None
        return self._descriptor

    def append(self, *buffers: Buffer) -> int:
        position = self.size
        try:
            descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
            if (found := os.lseek(descriptor, 0, os.SEEK_END)) < position:
                raise LogFileChanged(self._path, found, position)
            if len(buffers) == 1:
                expected, written = len(buffers[0]), os.pwrite(descriptor, buffers[0], position)
            else:
                expected, written = sum(map(len, buffers)), os.pwritev(descriptor, buffers, position)
            if written != expected:
                self._write_rest(b"".join(buffers)[written:], position + written)
        except OSError as error:
            raise storage_error("write to", self._path, error) from error
        self.size = position + expected
        return position

    def _write_rest(self, data: bytes, position: int) -> None:
        """After a short write; a full disk shows itself as an error here."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written

    def read(self, position: int, length: int, *, wait: bool = True) -> bytes | bytearray:
        try:
            descriptor = self._descriptor if self._descriptor >= 0 else self._reopen()
            if wait or not _NO_WAIT:
                return os.pread(descriptor, length, position)
            return self._read_cached(descriptor, position, min(length, max(self.size - position, 0)))
        except OSError as error:
            raise storage_error("read", self._path, error) from error

    def _read_cached(self, descriptor: int, position: int, length: int) -> bytes | bytearray:
        data = bytearray(length)
        try:
            got = os.preadv(descriptor, [data], position, _NO_WAIT)
        except BlockingIOError:
            got = 0
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # some file systems cannot say
                raise
            return os.pread(descriptor, length, position)
        if got < length:
            raise ColdRead(partial(self._files.fill_cache, self._path, position, length))
        return data

    def truncate(self, size: int) -> None:
        with _storage_errors("shorten", self._path):
            os.ftruncate(self._descriptor if self._descriptor >= 0 else self._reopen(), size)
        self.size = size

    def sync(self) -> None:
        with _storage_errors("sync", self._path):
            os.fsync(self._descriptor if self._descriptor >= 0 else self._reopen())

    def close(self) -> None:
        """Close the descriptor; a later call opens it again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._opened.pop(self, None)
            with _storage_errors("close", self._path):
                os.close(descriptor)

    def __del__(self) -> None:
        """A log that is dropped without `close` leaves no descriptor behind."""
        if self._descriptor >= 0:
            os.close(self._descriptor)


class OsFiles:
    """Files on the disk under `root`, which is made when missing. A thread holds at most `open_files_max` descriptors (a quarter of the
    process's limit unless given), its longest open being closed first and opened again when needed."""

    def __init__(self, root: str | Path, *, open_files_max: int | None = None) -> None:
        self._root = os.fspath(root)
        self._locks: list[int] = []
        self._threads = threading.local()
        if open_files_max is None:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            open_files_max = 4096 if soft == resource.RLIM_INFINITY else max(16, soft // 4)
        self.open_files_max = open_files_max
        with _storage_errors("make", self._root):
            os.makedirs(self._root, exist_ok=True)
        self._root_identity = self.identity("")
        self._lost: str | None = None

    @property
    def opened(self) -> dict[OsFile, None]:
        """The files that this thread opened: no other thread closes them while they are in use."""
        opened: dict[OsFile, None] | None = getattr(self._threads, "opened", None)
        if opened is None:
            opened = self._threads.opened = {}
        return opened

    def absolute(self, path: str) -> str:
        return f"{self._root}/{path}"

    def volume(self) -> tuple[str, int, int]:
        """The root's absolute path, and the bytes of the disk under it: all, and those that may still be filled. Any thread."""
        with _storage_errors("look at", self._root):
            found = os.statvfs(self._root)
        return os.path.abspath(self._root), found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def fill_cache(self, path: str, position: int, length: int) -> None:
        """Have the kernel read a range into its cache. A missing file is no error here: the next read reports it."""
        try:
            descriptor = os.open(self.absolute(path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error("open", path, error) from error
        with _storage_errors("read", path):
            try:
                for at in range(position, position + length, _WARM_BYTES):
                    os.pread(descriptor, min(_WARM_BYTES, position + length - at), at)
            finally:
                os.close(descriptor)

    def make_room(self) -> None:
        opened = self.opened
        while len(opened) >= self.open_files_max:
            next(iter(opened)).close()

    def lock(self, user: str = "broker") -> None:
        """Keep other processes out of the root until `unlock` (or the end of this process); StorageError when another one is in.

        The directory itself is locked, too: the lock of a file ends with the file's name. `user`: what uses it, for the error."""
        with _storage_errors("open", _LOCK_FILE):
            self._locks.append(os.open(self.absolute(_LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
            self._locks.append(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for descriptor in self._locks:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                self.unlock()
                raise StorageError(f"{self._root} is used by another {user}; stop that one or choose another directory") from error
            except OSError:
                if descriptor == self._locks[0]:
                    raise
                # NFS locks no directories.

    def unlock(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def open(self, path: str) -> OsFile:
        return OsFile(self, path)

    def exists(self, path: str) -> bool:
        return os.path.exists(self.absolute(path))

    def size(self, path: str) -> int:
        with _storage_errors("look at", path):
            return os.stat(self.absolute(path)).st_size

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self.absolute(directory)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error("list", directory or self._root, error) from error

    def make_directory(self, directory: str) -> None:
        self._refuse_when_lost()
        with _storage_errors("make", directory), suppress(FileExistsError):
            os.mkdir(self.absolute(directory), _mode(directory, 0o777))

    def check_root(self) -> None:
        self._refuse_when_lost()
        if self.identity("") != self._root_identity:
            self._lost = (
                f"the data directory {os.path.abspath(self._root)} is gone: another program deleted or moved it; start the broker again"
            )
            raise StorageError(self._lost)

    def _refuse_when_lost(self) -> None:
        if self._lost is not None:
            raise StorageError(self._lost)

    def identity(self, path: str) -> Identity | None:
        try:
            found = os.stat(self.absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error("look at", path or self._root, error) from error
        return found.st_dev, found.st_ino

    def names_state(self, directory: str) -> object:
        with _storage_errors("look at", directory or self._root):
            return os.stat(self.absolute(directory)).st_mtime_ns

    def rename(self, old: str, new: str) -> None:
        with _storage_errors("rename", old):
            os.rename(self.absolute(old), self.absolute(new))

    rename_directory = rename

    def remove(self, path: str) -> None:
        with _storage_errors("remove", path):
            os.remove(self.absolute(path))

    def remove_directory(self, directory: str) -> None:
        with _storage_errors("remove", directory):
            for name in os.listdir(self.absolute(directory)):
                os.remove(self.absolute(f"{directory}/{name}"))
            os.rmdir(self.absolute(directory))

    def read_all(self, path: str) -> bytes:
        with _storage_errors("read", path):
            return Path(self.absolute(path)).read_bytes()

    def read_range(self, path: str, position: int, length: int) -> bytes:
        """At most `length` bytes of a file that may belong to another program: it is opened for reading only, and never made."""
        with _storage_errors("read", path), open(self.absolute(path), "rb", buffering=0) as file:
            return os.pread(file.fileno(), length, position)

    def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        self._refuse_when_lost()
        temporary = self.absolute(path + ".tmp")
        with _storage_errors("write", path):
            with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, _mode(path, 0o666))) as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            os.replace(temporary, self.absolute(path))
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def sync(self, path: str) -> None:
        self._sync(path, os.O_RDWR)

    def sync_directory(self, directory: str) -> None:
        self._sync(directory, os.O_RDONLY | os.O_DIRECTORY)

    def _sync(self, path: str, flags: int) -> None:
        with _storage_errors("sync", path or self._root):
            descriptor = os.open(self.absolute(path), flags | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
