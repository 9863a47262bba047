"""The lines as JSON: one object each, nothing lost, and a summary at the end."""

import io
import json
from pathlib import Path
from typing import Any

from ottla.cli.dump.contents import Contents, reader_for
from ottla.cli.dump.dump_run import run
from ottla.cli.dump.json_lines import JsonPrinter
from ottla.storage.dump.items import DumpOptions, FindingItem, OldBatchItem


def objects(path: Path, contents: Contents) -> list[dict[str, Any]]:
    out = io.StringIO()
    run([str(path)], DumpOptions(with_records=True), JsonPrinter(out, contents=contents, reader=reader_for(contents)))
    assert out.getvalue().isascii()
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_batches_records_and_control_records(log: Path) -> None:
    file, note, batch, first, second, control_batch, control, summary = objects(log, Contents.TEXT)
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


def test_records_of_the_offsets_topic(offsets_log: Path) -> None:
    *_, commit, tombstone, unknown, version, damaged, summary = objects(offsets_log, Contents.OFFSETS)
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
    printer = JsonPrinter(out, contents=Contents.NOTHING, reader=None)
    printer.item(FindingItem("Odd", "  one"))
    printer.item(FindingItem("Odd", "  two", is_fault=False))
    printer.item(OldBatchItem(3, 40, "CreateTime", 5, 30, 1, 0, 99, True))
    first, second, batch = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {"kind": "finding", "heading": "Odd", "text": "one", "isFault": True}
    assert not second["isFault"]
    assert (batch["kind"], batch["offset"], batch["maxTimestamp"], batch["magic"]) == ("batch", 3, 5, 1)
    assert printer.faults == 1
