"""Which files are dumped, in which order, and with which exit status."""

import io
import os
from pathlib import Path

import pytest

from ottla.cli.dump.contents import Contents
from ottla.cli.dump.dump_run import run, targets
from ottla.cli.dump.text import TextPrinter
from ottla.storage.dump.items import DumpOptions


def dumped(*arguments: str) -> tuple[list[str], str, int]:
    """The files that were dumped, the findings, and the exit status."""
    out, err = io.StringIO(), io.StringIO()
    status = run(arguments, DumpOptions(), TextPrinter(out, err, contents=Contents.NOTHING, reader=None, with_metadata=True))
    return [line[8:] for line in out.getvalue().splitlines() if line.startswith("Dumping ")], err.getvalue(), status


def test_a_directory_stands_for_its_files_and_a_data_directory_for_those_of_its_partitions(log: Path, tmp_path: Path) -> None:
    (log.parent / "partition.metadata").write_text("version: 0\ntopic_id: x")
    (log.parent / "notes.txt").write_text("mine")
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    (tmp_path / "empty").mkdir()
    assert dumped(str(log.parent)) == ([str(log), str(log.parent / "partition.metadata")], "", 0)
    files = [str(tmp_path / "meta.properties"), str(log), str(log.parent / "partition.metadata")]
    assert dumped(str(tmp_path)) == (files, "", 0)
    assert [str(each.path) for each in targets([str(log), str(tmp_path)])] == [str(log), *files]


@pytest.mark.parametrize("name", ["not-there.log", "no/such/directory/0.log", "nothing"])
def test_what_cannot_be_dumped_is_a_sentence_and_status_1(tmp_path: Path, name: str) -> None:
    (tmp_path / "nothing").mkdir()
    files, err, status = dumped(str(tmp_path / name))
    assert files == [str(tmp_path / name)]
    assert "could not be read" in err
    assert status == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nothing"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.log")
    _, err, status = dumped(str(tmp_path / "0.log"))
    assert "neither a file nor a directory" in err
    assert status == 1


def test_a_file_without_permission(log: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    log.chmod(0)
    _, err, status = dumped(str(log))
    assert "permission denied" in err
    assert status == 1


def test_files_are_not_changed(log: Path) -> None:
    log.chmod(0o400)
    before = (log.read_bytes(), log.stat().st_mtime_ns, sorted(log.parent.iterdir()))
    assert dumped(str(log))[2] == 0
    assert (log.read_bytes(), log.stat().st_mtime_ns, sorted(log.parent.iterdir())) == before


def test_the_others_go_on_after_a_fault(log: Path) -> None:
    (log.parent / "00000000000000000000.index").write_bytes(b"abc")
    files, err, status = dumped(str(log.parent / "00000000000000000000.index"), str(log))
    assert len(files) == 2
    assert "no multiple of 8" in err
    assert status == 1
