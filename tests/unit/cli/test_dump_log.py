"""`ottla dump-log`: which files are meant, and their lines in Kafka's words and as JSON."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli.dump import JsonPrinter, RecordContents, TextPrinter, Undecoded, codec_name, reader_for, run, targets
from ottla.cli.main import main
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.log.dump.batches import DumpOptions, Entry, FindingItem, Note, OldBatchItem
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """`t-0/00000000000000000000.log`: a record with everything, one with nothing, and a commit marker."""
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    records = [Record(0, 1000, b"k", "ž".encode(), (Header("h1", b""), Header("h2", None))), Record(1, 1001, None, b"\xff\x00", ())]
    batch = encode_batch(records, producer_id=7, producer_epoch=1, base_sequence=2**31 - 1, is_transactional=True)
    marker = Record(2, 1002, b"\0\0\0\1", b"\0\0\0\0\0\7", ())
    control = encode_batch([marker], base_offset=2, producer_id=7, producer_epoch=1, is_transactional=True, is_control=True)
    path.write_bytes(batch + control)
    return path


@pytest.fixture
def offsets_log(tmp_path: Path) -> Path:
    """A log of the offsets topic: a commit, a tombstone, an unknown type, an unknown version, and a damaged value."""
    path = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    path.parent.mkdir()
    value = OffsetValue(offset=42, leader_epoch=5, metadata="m", commit_timestamp_ms=1000)
    commit = OffsetRecord(group_id="g", topic="t", partition=3, value=value)
    gone = GroupMetadataRecord(group_id="g", value=None)
    pairs = [
        (encode_key(commit), encode_value(commit)),
        (encode_key(gone), None),
        (b"\x00\x63", b""),
        (encode_key(gone), b"\x00\x09"),
        (encode_key(gone), b"\x00\x03\x00"),
    ]
    path.write_bytes(encode_batch([Record(n, 1000, key, data, ()) for n, (key, data) in enumerate(pairs)]))
    return path


OTTLA = str(Path(sys.executable).with_name("ottla"))


@pytest.fixture
def log_dump_log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000005.log"
    batches = (encode_batch([Record(n, 1000, b"k%d" % n, "ž".encode(), ())], base_offset=n) for n in (5, 6))
    path.write_bytes(b"".join(map(bytes, batches)))
    return path


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["dump-log", *map(str, arguments)])


def test_files_by_position_and_by_option(log_dump_log: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    result = dump(log_dump_log, "--files", f"{log_dump_log},{tmp_path / 'meta.properties'}")
    assert [line for line in result.stdout.splitlines() if line.startswith("Dumping")] == [
        f"Dumping {log_dump_log}",
        f"Dumping {log_dump_log}",
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
def test_what_is_shown_of_records(log_dump_log: Path, options: list[str], records: int, contents: int) -> None:
    result = dump(log_dump_log, *options)
    assert (result.stdout.count("| offset: "), result.stdout.count("payload: ž"), result.exit_code) == (records, contents, 0)


@pytest.mark.parametrize("option", ["--offsets-decoder", "--transaction-log-decoder"])
def test_decoders_print_records(log_dump_log: Path, option: str) -> None:
    result = dump(log_dump_log, option)
    assert result.stdout.count("| offset: ") == 2
    assert "key: Unknown record type 27445 at offset 5, skipping." in result.stdout
    assert "2 records of type" not in result.stderr
    assert result.exit_code == 0


def test_index_options(log_dump_log: Path) -> None:
    index = log_dump_log.with_suffix(".index")
    index.write_bytes((0).to_bytes(4) + (7).to_bytes(4))
    assert "no batch lies at position 7" in dump(index).stderr
    assert "offset: 5 position: 7" in dump(index).stdout
    assert "offset: 5 position: 7" not in dump("--verify-index-only", index).stdout
    assert dump("--verify-index-only", index).exit_code == 1
    assert "passed sanity check." in dump("--index-sanity-check", index).stdout
    index.write_bytes((0).to_bytes(4) + (0).to_bytes(4))
    assert dump(index).exit_code == 0
    assert "bytes" in dump("--max-message-size", "10", index).stderr


def test_json(log_dump_log: Path) -> None:
    result = dump("--json", "--print-data-log", log_dump_log)
    kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
    assert kinds == ["file", "note", "batch", "record", "batch", "record", "summary"]


def test_no_file_is_a_mistake() -> None:
    result = dump()
    assert result.exit_code == 2
    assert "Which files?" in result.stderr


def test_a_terminal_that_knows_only_ascii_and_a_reader_that_goes_away(log_dump_log: Path) -> None:
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [OTTLA, "dump-log", "--print-data-log", str(log_dump_log)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "payload: \\u017e" in ran.stdout
    with log_dump_log.open("ab") as file:
        file.write(log_dump_log.read_bytes() * 5000)
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
        (["--offsets-decoder", "--cluster-metadata-decoder"], "choose one"),
        (["--json", "--print-data-log", "--skip-record-metadata"], "is for text"),
    ],
)
def test_options_that_contradict_each_other_are_refused(log_dump_log: Path, options: list[str], words: str) -> None:
    result = dump(log_dump_log, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(5, 0, key, value, ())


@pytest.mark.parametrize("contents", [RecordContents.NOTHING, RecordContents.TEXT])
def test_text_needs_no_decoder(contents: RecordContents) -> None:
    assert reader_for(contents) is None


@pytest.mark.parametrize(
    ("contents", "key", "data"),
    [(RecordContents.OFFSETS, "0002000167", {"group": "g"}), (RecordContents.TRANSACTIONS, "0000000167", {"transactionalId": "g"})],
)
def test_each_decoder_reads_its_topic(contents: RecordContents, key: str, data: dict[str, str]) -> None:
    reader = reader_for(contents)
    assert reader is not None
    found = reader.read(record(bytes.fromhex(key), None))
    assert not isinstance(found, Undecoded)
    assert found["key"]["data"] == data


def test_unknown_records_are_counted_and_no_fault() -> None:
    reader = reader_for(RecordContents.OFFSETS)
    assert reader is not None
    assert reader.read(record(b"\x00\x63", None)) == Undecoded("Unknown record type 99 at offset 5, skipping.", False)
    again = Undecoded("Error at offset 5, skipping. Found an unknown record version 9 for 2 type", False)
    assert reader.read(record(b"\x00\x02\x00\x01g", b"\x00\x09")) == again
    assert reader.read(record(b"\x00\x63", None)).sentence  # type: ignore[union-attr]
    assert reader.unknown == {(99, None): 2, (2, 9): 1}


def test_damage_is_a_fault() -> None:
    reader = reader_for(RecordContents.OFFSETS)
    assert reader is not None
    found = reader.read(record(None, None))
    assert isinstance(found, Undecoded)
    assert found.is_fault
    assert not reader.unknown


def printed(
    path: Path, contents: RecordContents = RecordContents.NOTHING, *, with_records: bool = True, with_metadata: bool = True
) -> tuple[str, str, int]:
    out, err = io.StringIO(), io.StringIO()
    printer = TextPrinter(out, err, contents=contents, reader=reader_for(contents), with_metadata=with_metadata)
    status = run([str(path)], DumpOptions(with_records=with_records), printer)
    return out.getvalue(), err.getvalue(), status


def test_batches(log: Path) -> None:
    out, err, status = printed(log, with_records=False)
    first, title, batch, control = out.splitlines()
    assert (first, title, err, status) == (f"Dumping {log}", "Log starting offset: 0", "", 0)
    assert batch.startswith(
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 2147483647 lastSequence: 0 producerId: 7 producerEpoch: 1"
        " partitionLeaderEpoch: 0 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty"
        " position: 0 CreateTime: 1001 size: "
    )
    assert " magic: 2 compresscodec: none crc: " in batch
    assert batch.endswith(" isvalid: true")
    assert "baseSequence: -1 lastSequence: -1 " in control


def test_records_without_and_with_their_contents(log: Path) -> None:
    lines = printed(log)[0].splitlines()
    first = "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 2 sequence: 2147483647 headerKeys: [h1,h2]"
    second = "| offset: 1 CreateTime: 1001 keySize: -1 valueSize: 2 sequence: 0 headerKeys: []"
    marker = "| offset: 2 CreateTime: 1002 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 7"
    assert (lines[3], lines[4], lines[6]) == (first, second, marker)
    lines = printed(log, RecordContents.TEXT)[0].splitlines()
    assert (lines[3], lines[4], lines[6]) == (f"{first} key: k payload: ž", f"{second} payload: \ufffd\0", marker)


def test_contents_alone(log: Path) -> None:
    lines = printed(log, RecordContents.TEXT, with_metadata=False)[0].split("\n")
    assert (lines[3], lines[4], lines[6]) == ("| key: k payload: ž", "| payload: \ufffd\0", "")


def test_records_of_the_offsets_topic(offsets_log: Path) -> None:
    out, err, status = printed(offsets_log, RecordContents.OFFSETS)
    contents = [line.split("headerKeys: [] ")[1] for line in out.splitlines() if line.startswith("|")]
    assert contents[:4] == [
        'key: {"type":"1","data":{"group":"g","topic":"t","partition":3}} payload: {"version":"4","data":{"offset":42,"leaderEpoch":5,'
        '"metadata":"m","commitTimestamp":1000}}',
        'key: {"type":"2","data":{"group":"g"}} payload: <DELETE>',
        "key: Unknown record type 99 at offset 2, skipping.",
        "key: Error at offset 3, skipping. Found an unknown record version 9 for 2 type",
    ]
    assert contents[4].startswith("key: Error at offset 4, skipping. ")
    assert err == "Not known, and skipped: 1 record of type 2 with value version 9\nNot known, and skipped: 1 record of type 99\n"
    assert status == 1


def test_findings_have_their_heading_once_and_faults_are_counted() -> None:
    out, err = io.StringIO(), io.StringIO()
    printer = TextPrinter(out, err, contents=RecordContents.NOTHING, reader=None, with_metadata=True)
    for text, is_fault in (("  one", True), ("  two", False)):
        printer.item(FindingItem("Odd", text, is_fault))
    printer.item(FindingItem("Other", "three"))
    assert err.getvalue() == "Odd\n  one\n  two\nOther\nthree\n"
    assert printer.faults == 2


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (Note("x is empty."), "x is empty."),
        (Entry({"offset": 3, "position": 40}), "offset: 3 position: 40"),
        (Entry({"currentTxnFirstOffset": None, "lastTimestamp": 5}), "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 5"),
        (Entry({"currentTxnFirstOffset": 7}), "currentTxnFirstOffset: OptionalLong[7]"),
        (
            OldBatchItem(3, 40, "NoTimestampType", -1, 30, 0, 1, 99, False),
            "offset: 3 position: 40 NoTimestampType: -1 size: 30 magic: 0 compresscodec: gzip crc: 99 isvalid: false",
        ),
    ],
)
def test_other_lines(item: Note | Entry | OldBatchItem, line: str) -> None:
    out = io.StringIO()
    TextPrinter(out, io.StringIO(), contents=RecordContents.NOTHING, reader=None, with_metadata=True).item(item)
    assert out.getvalue() == line + "\n"


def test_names_of_codecs() -> None:
    assert [codec_name(number) for number in range(6)] == ["none", "gzip", "snappy", "lz4", "zstd", "unknown(5)"]


def objects(path: Path, contents: RecordContents) -> list[dict[str, Any]]:
    out = io.StringIO()
    run([str(path)], DumpOptions(with_records=True), JsonPrinter(out, contents=contents, reader=reader_for(contents)))
    assert out.getvalue().isascii()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_batches_records_and_control_records(log: Path) -> None:
    file, note, batch, first, second, control_batch, control, summary = objects(log, RecordContents.TEXT)
    assert file == {"kind": "file", "file": str(log)}
    assert note == {"kind": "note", "text": "Log starting offset: 0"}
    assert (batch["baseSequence"], batch["lastSequence"], batch["deleteHorizonMs"], batch["isvalid"]) == (2**31 - 1, 0, None, True)
    assert (batch["timestampType"], batch["maxTimestamp"], batch["compresscodec"]) == ("CreateTime", 1001, "none")
    assert first == {
        "kind": "record",
        "offset": 0,
        "timestampType": "CreateTime",
        "timestamp": 1000,
        "keySize": 1,
        "valueSize": 2,
        "sequence": 2**31 - 1,
        "headerKeys": ["h1", "h2"],
        "key": "k",
        "value": "ž",
    }
    assert (second["key"], second["valueBase64"], "value" in second) == (None, "/wA=", False)
    assert control_batch["isControl"]
    assert control["control"] == {"type": "COMMIT", "id": 1, "data": {"version": 0, "coordinatorEpoch": 7}}
    assert summary == {"kind": "summary", "files": 1, "batches": 2, "records": 3, "faults": 0, "unknownRecords": []}


def test_records_of_the_offsets_topic_json_lines(offsets_log: Path) -> None:
    *_, commit, tombstone, unknown, version, damaged, summary = objects(offsets_log, RecordContents.OFFSETS)
    assert commit["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}}
    assert (commit["value"]["version"], commit["value"]["data"]["offset"]) == ("4", 42)
    assert tombstone["value"] is None
    assert [each["error"].split(", ")[0] for each in (unknown, version, damaged)] == [
        "Unknown record type 99 at offset 2",
        "Error at offset 3",
        "Error at offset 4",
    ]
    assert summary["unknownRecords"] == [{"type": 2, "valueVersion": 9, "count": 1}, {"type": 99, "valueVersion": None, "count": 1}]
    assert summary["faults"] == 1


def test_findings_and_old_batches() -> None:
    out = io.StringIO()
    printer = JsonPrinter(out, contents=RecordContents.NOTHING, reader=None)
    printer.item(FindingItem("Odd", "  one"))
    printer.item(FindingItem("Odd", "  two", is_fault=False))
    printer.item(OldBatchItem(3, 40, "CreateTime", 5, 30, 1, 0, 99, True))
    first, second, batch = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {"kind": "finding", "heading": "Odd", "text": "one", "isFault": True}
    assert not second["isFault"]
    assert (batch["kind"], batch["offset"], batch["maxTimestamp"], batch["magic"]) == ("batch", 3, 5, 1)
    assert printer.faults == 1


def dumped(*arguments: str) -> tuple[list[str], str, int]:
    """The files that were dumped, the findings, and the exit status."""
    out, err = io.StringIO(), io.StringIO()
    status = run(arguments, DumpOptions(), TextPrinter(out, err, contents=RecordContents.NOTHING, reader=None, with_metadata=True))
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "shown"), [(Terminal(), "key: \\x1b]0;x\\x07 payload: a\tb\n"), (io.StringIO(), "key: \x1b]0;x\x07 payload: a\tb\n")]
)
def test_records_do_not_control_a_terminal(tmp_path: Path, out: io.StringIO, shown: str) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(encode_batch([Record(0, 1000, b"\x1b]0;x\x07", b"a\tb", ())]))
    contents = RecordContents.TEXT
    run([str(path)], DumpOptions(with_records=True), TextPrinter(out, io.StringIO(), contents=contents, reader=None, with_metadata=False))
    assert out.getvalue().endswith(shown)
