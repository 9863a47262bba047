"""The lines as text: Kafka's own, word for word (tests/kafka/test_dump_log.py holds them against its tool)."""

import io
from pathlib import Path

import pytest

from ottla.cli.dump.contents import Contents, reader_for
from ottla.cli.dump.dump_run import run
from ottla.cli.dump.text import TextPrinter, codec_name
from ottla.storage.dump.items import DumpOptions, Entry, FindingItem, Note, OldBatchItem


def printed(
    path: Path, contents: Contents = Contents.NOTHING, *, with_records: bool = True, with_metadata: bool = True
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
    lines = printed(log, Contents.TEXT)[0].splitlines()
    assert (lines[3], lines[4], lines[6]) == (f"{first} key: k payload: ž", f"{second} payload: \ufffd\0", marker)


def test_contents_alone(log: Path) -> None:
    lines = printed(log, Contents.TEXT, with_metadata=False)[0].split("\n")
    assert (lines[3], lines[4], lines[6]) == ("| key: k payload: ž", "| payload: \ufffd\0", "")


def test_records_of_the_offsets_topic(offsets_log: Path) -> None:
    out, err, status = printed(offsets_log, Contents.OFFSETS)
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
    printer = TextPrinter(out, err, contents=Contents.NOTHING, reader=None, with_metadata=True)
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
    TextPrinter(out, io.StringIO(), contents=Contents.NOTHING, reader=None, with_metadata=True).item(item)
    assert out.getvalue() == line + "\n"


def test_names_of_codecs() -> None:
    assert [codec_name(number) for number in range(6)] == ["none", "gzip", "snappy", "lz4", "zstd", "unknown(5)"]
