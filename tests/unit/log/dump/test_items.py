"""What a dump shows by default."""

from pathlib import Path

from ottla.log.dump.items import WINDOW_BYTES, DumpOptions, FindingItem, Window
from ottla.log.file_system import MemoryFiles
from ottla.log.files import OsFiles


def test_batches_and_index_entries_are_shown_and_records_are_not() -> None:
    options = DumpOptions()
    assert (options.with_records, options.with_entries, options.is_sanity_check, options.bytes_max) == (False, True, False, None)


def test_a_finding_is_a_fault_unless_it_says_otherwise() -> None:
    assert FindingItem("heading", "text").is_fault


class CountingFiles(MemoryFiles):
    """Remembers how much was read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def read_range(self, path: str, position: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read_range(path, position, length)


def test_ranges_are_read_in_windows() -> None:
    files = CountingFiles()
    data = bytes(n % 251 for n in range(3 * WINDOW_BYTES // 1000)) * 1000
    files.open("log").append(data)
    window = Window(files, "log")
    for position in range(0, len(data), 1000):
        assert window.read(position, 61) == data[position : position + 61]
    assert len(files.lengths) <= 5
    assert max(files.lengths) == WINDOW_BYTES
    assert window.read(10, 2 * WINDOW_BYTES) == data[10 : 10 + 2 * WINDOW_BYTES]


def test_reads_end_where_the_file_ends_or_the_limit_is() -> None:
    files = MemoryFiles()
    files.open("log").append(b"0123456789")
    window = Window(files, "log", size_max=6)
    assert window.size == 6
    assert bytes(window.read(4, 10)) == b"45"
    assert bytes(window.read(6, 1)) == bytes(window.read(60, 1)) == bytes(window.read(-1, 3)) == b""


def test_what_is_appended_later_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"12345")
    window = Window(OsFiles(tmp_path), "log")
    (tmp_path / "log").write_bytes(b"12345678")
    assert bytes(window.read(0, 100)) == b"12345"


def test_a_file_that_was_cut_meanwhile_gives_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"12345")
    window = Window(OsFiles(tmp_path), "log")
    (tmp_path / "log").write_bytes(b"12")
    assert bytes(window.read(0, 5)) == b"12"
