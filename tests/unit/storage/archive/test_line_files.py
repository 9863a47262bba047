"""Tests of lines in numbered files."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.archive.line_files import LineFiles, LineProblems, read_lines
from ottla.storage.memory_files import MemoryFiles


def stored(files: MemoryFiles, problems: LineProblems | None = None) -> list[bytes]:
    return list(read_lines(files, "s", problems or LineProblems()))


def test_lines_come_back_in_order_from_several_files() -> None:
    files = MemoryFiles()
    log = LineFiles(files, "s", file_bytes=10)
    lines = [b"line %d" % number for number in range(9)]
    for line in lines[:5]:
        assert log.append([line]) == len(line) + 1
    log.append(lines[5:7])
    assert log.append([]) == 0
    log.close()
    LineFiles(files, "s").append(lines[7:])
    assert len(files.list("s")) == 4
    assert stored(files) == lines


def test_a_torn_line_is_ignored_and_cut_off() -> None:
    files = MemoryFiles()
    LineFiles(files, "s").append([b"whole"])
    path = f"s/{files.list('s')[0]}"
    files.replace(path, files.read_all(path) + b'{"torn')
    problems = LineProblems()
    assert stored(files, problems) == [b"whole"]
    assert problems.torn_bytes == 6
    LineFiles(files, "s").append([b"next"])
    assert stored(files) == [b"whole", b"next"]


def test_a_file_without_any_newline_is_torn_altogether() -> None:
    files = MemoryFiles()
    files.make_directory("s")
    files.replace("s/00000000000000000000.jsonl", b"x" * 3_000_000)
    LineFiles(files, "s").append([b"next"])
    assert stored(files) == [b"next"]


def test_long_lines_are_skipped_and_counted() -> None:
    files = MemoryFiles()
    LineFiles(files, "s").append([b"a" * 100, b"short", b"b" * 3_000_000, b"end"])
    problems = LineProblems()
    assert list(read_lines(files, "s", problems, line_bytes_max=50)) == [b"short", b"end"]
    assert problems.long_lines == 2


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=12), st.binary(max_size=9), st.integers(1, 40))
def test_whatever_was_written_comes_back(lines: list[bytes], torn: bytes, file_bytes: int) -> None:
    files = MemoryFiles()
    log = LineFiles(files, "s", file_bytes=file_bytes)
    for line in lines:
        log.append([line])
    path = f"s/{files.list('s')[-1]}"
    files.replace(path, files.read_all(path) + torn.replace(b"\n", b""))
    LineFiles(files, "s").append([b"after"])
    assert stored(files) == [*lines, b"after"]
