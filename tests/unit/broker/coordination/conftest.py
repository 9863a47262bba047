"""Files in memory that call the test before every append."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.file_system import MemoryFile, MemoryFiles


class HookedFiles(MemoryFiles):
    """`before_append` gets the path of the file that is appended to; what it raises, the append raises."""

    def __init__(self) -> None:
        super().__init__()
        self.before_append: Callable[[str], None] = lambda _path: None

    def open(self, path: str) -> MemoryFile:
        return _HookedFile(self, path, super().open(path))  # type: ignore[return-value]


class _HookedFile:
    def __init__(self, files: HookedFiles, path: str, file: MemoryFile) -> None:
        self._files = files
        self._path = path
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, *buffers: bytes) -> int:
        self._files.before_append(self._path)
        return self._file.append(*buffers)


@pytest.fixture
def hooked_files() -> HookedFiles:
    """Files whose appends the test watches, or lets fail."""
    return HookedFiles()
