"""`ottla dump-log`: its options, and its two ways to print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch

OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000005.log"
    batches = (encode_batch([Record(n, 1000, b"k%d" % n, "ž".encode(), ())], base_offset=n) for n in (5, 6))
    path.write_bytes(b"".join(map(bytes, batches)))
    return path


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["dump-log", *map(str, arguments)])


def test_files_by_position_and_by_option(log: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    result = dump(log, "--files", f"{log},{tmp_path / 'meta.properties'}")
    assert [line for line in result.stdout.splitlines() if line.startswith("Dumping")] == [
        f"Dumping {log}",
        f"Dumping {log}",
        f"Dumping {tmp_path / 'meta.properties'}",
    ]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("options", "records", "contents"),
    [
        ([], 0, 0),
        (["--deep-iteration"], 2, 0),
        (["--print-data-log"], 2, 2),
        (["--print-data-log", "--deep-iteration"], 2, 2),
        (["--print-data-log", "--max-bytes", "100"], 1, 1),
        (["--print-data-log", "--skip-record-metadata"], 0, 2),
    ],
)
def test_what_is_shown_of_records(log: Path, options: list[str], records: int, contents: int) -> None:
    result = dump(log, *options)
    assert (result.stdout.count("| offset: "), result.stdout.count("payload: ž"), result.exit_code) == (records, contents, 0)


@pytest.mark.parametrize("option", ["--offsets-decoder", "--transaction-log-decoder"])
def test_decoders_print_records(log: Path, option: str) -> None:
    result = dump(log, option)
    assert result.stdout.count("| offset: ") == 2
    assert "key: Unknown record type 27445 at offset 5, skipping." in result.stdout
    assert "2 records of type" not in result.stderr
    assert result.exit_code == 0


def test_index_options(log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes((0).to_bytes(4) + (7).to_bytes(4))
    assert "no batch lies at position 7" in dump(index).stderr
    assert "offset: 5 position: 7" in dump(index).stdout
    assert "offset: 5 position: 7" not in dump("--verify-index-only", index).stdout
    assert dump("--verify-index-only", index).exit_code == 1
    assert "passed sanity check." in dump("--index-sanity-check", index).stdout
    index.write_bytes((0).to_bytes(4) + (0).to_bytes(4))
    assert dump(index).exit_code == 0
    assert "bytes" in dump("--max-message-size", "10", index).stderr


def test_json(log: Path) -> None:
    result = dump("--json", "--print-data-log", log)
    kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
    assert kinds == ["file", "note", "batch", "record", "batch", "record", "summary"]


def test_no_file_is_a_mistake() -> None:
    result = dump()
    assert result.exit_code == 2
    assert "Which files?" in result.stderr


def test_a_terminal_that_knows_only_ascii_and_a_reader_that_goes_away(log: Path) -> None:
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [OTTLA, "dump-log", "--print-data-log", str(log)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "payload: \\u017e" in ran.stdout
    with log.open("ab") as file:
        file.write(log.read_bytes() * 5000)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 1
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--offsets-decoder", "--transaction-log-decoder"], "choose one"),
        (["--json", "--print-data-log", "--skip-record-metadata"], "is for text"),
    ],
)
def test_options_that_contradict_each_other_are_refused(log: Path, options: list[str], words: str) -> None:
    result = dump(log, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
