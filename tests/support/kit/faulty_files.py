"""Files that fail on purpose: a crash loses what was not synced, a write tears, a sync fails, a bit flips.

Wraps `OsFiles` or `MemoryFiles`, so that the real storage code runs against a disk that keeps only what it promised to keep: the bytes of
a file after `sync`, the names in a directory after `sync_directory`; any of the changes of names since then may survive, each as a whole.
Faults come from the `Random` that is given and from nothing else: a seed is a run.
"""

import threading
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ottla.log.file_system import Buffer, File, Files, Identity
from ottla.protocol.errors import StorageError


def overwrite(files: Files, path: str, position: int, data: Buffer) -> None:
    """Replace existing bytes of a file, also while it is open elsewhere: damage that Ottla itself never does."""
    before = files.read_all(path)
    assert position + len(data) <= len(before), "only bytes that exist are replaced"
    file = files.open(path)
    file.truncate(position)
    file.append(data, before[position + len(data) :])
    file.close()


@dataclass(slots=True, eq=False)
class _Node:
    """One file, whatever its name: what a crash must leave of it, and what it held when it was last unlinked."""

    synced: bytes = b""
    unlinked: bytes = b""


class _Change(NamedTuple):
    """One change of names that is not durable yet: from now on the file has this name and no other (None: it is gone)."""

    directory: str
    node: _Node
    name: str | None


class FaultyFile:
    """A handle that a crash invalidates."""

    def __init__(self, files: "FaultyFiles", path: str, inner: File) -> None:
        self._files = files
        self._path = path
        self._inner = inner
        self._life = files.crashes

    @property
    def size(self) -> int:
        return self._inner.size

    def _alive(self) -> File:
        if self._life != self._files.crashes:
            raise StorageError(f"cannot use {self._path}: this handle is from before the crash")
        return self._inner

    def append(self, *buffers: Buffer) -> int:
        inner = self._alive()
        written = self._files.take_write_failure()
        if written is not None:
            # As on a real disk: some of the bytes are there, while the handle still counts none of them.
            self._inner = _Overfull(inner, inner.size)
            inner.append(b"".join(buffers)[:written])
            raise StorageError(f"cannot write to {self._path}: injected fault")
        return inner.append(*buffers)

    def read(self, position: int, length: int, *, wait: bool = True) -> bytes | bytearray:
        return self._alive().read(position, length, wait=wait)

    def truncate(self, size: int) -> None:
        inner = self._alive()
        if self._files.truncate_fails:
            raise StorageError(f"cannot shorten {self._path}: injected fault")
        inner.truncate(size)
        if isinstance(inner, _Overfull):
            self._inner = inner.inner

    def sync(self) -> None:
        self._alive()
        self._files.sync(self._path)

    def close(self) -> None:
        self._inner.close()


class _Overfull:
    """A file with bytes behind its counted end, left by a failed append; the next append overwrites them."""

    def __init__(self, inner: File, size: int) -> None:
        self.inner = inner
        self.size = size

    def append(self, *buffers: Buffer) -> int:
        self.inner.truncate(self.size)
        position = self.inner.append(*buffers)
        self.size = self.inner.size
        return position

    def read(self, position: int, length: int, *, wait: bool = True) -> bytes | bytearray:
        return self.inner.read(position, length, wait=wait)

    def truncate(self, size: int) -> None:
        self.inner.truncate(size)
        self.size = size

    def sync(self) -> None:
        self.inner.sync()

    def close(self) -> None:
        self.inner.close()


class FaultyFiles:
    """`inner` with faults: crashes, failing writes and syncs, flipped bits.

    `crashes` counts them. `truncate_fails`: shortening a file is refused from now on. Names and bytes that `inner` already holds count as
    durable.
    """

    def __init__(self, inner: Files, random: Random) -> None:
        self._inner = inner
        self._random = random
        self.crashes = 0
        self.truncate_fails = False
        self._write_failure_bytes: int | None = None
        self._sync_failures = 0
        self._take_all_as_durable()

    def _take_all_as_durable(self) -> None:
        names = self._inner.list("")
        self._directories = {name for name in names if not self._is_file(name)}
        paths = [name for name in names if name not in self._directories]
        paths += [f"{directory}/{name}" for directory in sorted(self._directories) for name in self._inner.list(directory)]
        self._nodes = {path: _Node(synced=self._inner.read_all(path)) for path in paths}
        self._durable_directories = set(self._directories)
        self._durable_nodes = dict(self._nodes)
        self._changes: list[_Change] = []
        self._lock = threading.Lock()  # logs are closed by several threads at once

    def _is_file(self, name: str) -> bool:
        try:
            self._inner.read_all(name)
        except StorageError:
            return False
        return True

    # --- faults

    def fail_next_write(self, *, after_bytes: int) -> None:
        """The next append or replacement fails when `after_bytes` of it are written."""
        self._write_failure_bytes = after_bytes

    def take_write_failure(self) -> int | None:
        failure, self._write_failure_bytes = self._write_failure_bytes, None
        return failure

    def fail_next_sync(self) -> None:
        """The next sync of a file fails and makes nothing durable."""
        self._sync_failures += 1

    def heal(self) -> None:
        """Cancel the faults that have not happened yet."""
        self._write_failure_bytes, self._sync_failures, self.truncate_fails = None, 0, False

    def flip_bit(self, path: str) -> None:
        """Change one bit of a file, durably."""
        data = bytearray(self._inner.read_all(path))
        bit = self._random.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        overwrite(self._inner, path, 0, data)
        self._nodes[path].synced = bytes(data)

    def crash(self) -> None:
        """Lose power: what was not made durable is kept, lost or torn at random. Old handles are invalid; new ones see what is left."""
        kept = {}
        for directory in sorted(self._directories | self._durable_directories):
            if directory in self._durable_directories or self._random.random() < 0.5:
                kept[directory] = self._survivors(f"{directory}/")
        root = self._survivors("")
        for directory in sorted(self._directories):
            self._inner.remove_directory(directory)
        for path in sorted(path for path in self._nodes if "/" not in path):
            self._inner.remove(path)
        for directory, files in kept.items():
            self._inner.make_directory(directory)
            root |= files
        for path, data in root.items():
            self._inner.open(path).append(data)
        self.crashes += 1
        self.heal()
        self._take_all_as_durable()

    def _survivors(self, prefix: str) -> dict[str, bytes]:
        directory = prefix.removesuffix("/")
        names = {path: node for path, node in self._durable_nodes.items() if path.rpartition("/")[0] == directory}
        for change in self._changes:
            if change.directory == directory and self._random.random() < 0.5:
                _carry_out(change, names)
        survivors = {}
        named = {id(node): path for path, node in self._nodes.items()}
        for path, node in sorted(names.items()):
            written = self._inner.read_all(named[id(node)]) if id(node) in named else node.unlinked
            survivors[path] = self._tear(node.synced, written)
        return survivors

    def _tear(self, synced: bytes, written: bytes) -> bytes:
        """What a file may hold after a crash: the synced bytes, and of the unsynced ones any part, perhaps with zeros before its end."""
        if written == synced:
            return synced
        if not written.startswith(synced):
            # Overwritten or cut and not synced: the old bytes, or as much of the new ones as is the same, and more.
            if self._random.random() < 0.5:
                return synced
            same = next((at for at, (a, b) in enumerate(zip(synced, written)) if a != b), min(len(synced), len(written)))
            synced = written[:same]
        extra = bytearray(written[len(synced) :])
        del extra[self._random.randint(0, len(extra)) :]
        if extra and self._random.random() < 0.5:
            start = self._random.randrange(len(extra))
            end = self._random.randint(start, len(extra))
            extra[start:end] = bytes(end - start)
        return synced + bytes(extra)

    # --- files

    def open(self, path: str) -> FaultyFile:
        inner = self._inner.open(path)
        if path not in self._nodes:
            self._nodes[path] = _Node()
            self._change(path, self._nodes[path])
        return FaultyFile(self, path, inner)

    def _change(self, path: str, node: _Node, *, is_gone: bool = False) -> None:
        with self._lock:
            self._changes.append(_Change(path.rpartition("/")[0], node, None if is_gone else path))

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def size(self, path: str) -> int:
        return self._inner.size(path)

    def list(self, directory: str) -> list[str]:
        return self._inner.list(directory)

    def make_directory(self, directory: str) -> None:
        self._inner.make_directory(directory)
        self._directories.add(directory)

    def check_root(self) -> None:
        self._inner.check_root()

    def identity(self, path: str) -> Identity | None:
        return self._inner.identity(path)

    def names_state(self, directory: str) -> object:
        return self._inner.names_state(directory)

    def rename(self, old: str, new: str) -> None:
        self._unlink(new)
        self._inner.rename(old, new)
        self._nodes[new] = self._nodes.pop(old)
        self._change(new, self._nodes[new])

    def rename_directory(self, old: str, new: str) -> None:
        """Durable at once: the log manager, not the log, handles a crash between the two names."""
        self._inner.rename_directory(old, new)
        for names in (self._directories, self._durable_directories):
            if old in names:
                names.remove(old)
                names.add(new)
        self._settle(old)
        for nodes in (self._nodes, self._durable_nodes):
            for path in [path for path in nodes if path.startswith(f"{old}/")]:
                nodes[new + path.removeprefix(old)] = nodes.pop(path)

    def remove(self, path: str) -> None:
        self._unlink(path, is_gone=True)
        self._inner.remove(path)

    def _unlink(self, path: str, *, is_gone: bool = False) -> None:
        """The file loses its name; unless it `is_gone`, another one takes that name by the change that follows."""
        node = self._nodes.pop(path, None)
        if node is not None:
            node.unlinked = self._inner.read_all(path)
            if is_gone:
                self._change(path, node, is_gone=True)

    def remove_directory(self, directory: str) -> None:
        for name in self._inner.list(directory):
            self._unlink(f"{directory}/{name}", is_gone=True)
        self._inner.remove_directory(directory)
        self._directories.discard(directory)

    def read_all(self, path: str) -> bytes:
        return self._inner.read_all(path)

    def read_range(self, path: str, position: int, length: int) -> bytes:
        return self._inner.read_range(path, position, length)

    def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        if self.take_write_failure() is not None:
            raise StorageError(f"cannot write {path}: injected fault")
        self._unlink(path)
        self._inner.replace(path, data, sync=sync)
        self._nodes[path] = _Node(synced=bytes(data) if sync else b"")
        self._change(path, self._nodes[path])
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def sync(self, path: str) -> None:
        if self._sync_failures:
            self._sync_failures -= 1
            raise StorageError(f"cannot sync {path}: injected fault")
        self._inner.sync(path)
        self._nodes[path].synced = self._inner.read_all(path)

    def sync_directory(self, directory: str) -> None:
        self._inner.sync_directory(directory)
        if not directory:
            self._durable_directories = set(self._directories)
        self._settle(directory)

    def _settle(self, directory: str) -> None:
        with self._lock:
            for change in self._changes:
                if change.directory == directory:
                    _carry_out(change, self._durable_nodes)
            self._changes = [change for change in self._changes if change.directory != directory]


def _carry_out(change: _Change, names: dict[str, _Node]) -> None:
    for name in [name for name, node in names.items() if node is change.node]:
        del names[name]
    if change.name is not None:
        names[change.name] = change.node
