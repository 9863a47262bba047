"""Our tables of coordinators' records beside Apache Kafka's: its own schemas are in its jars, and its dump decodes what they allow.

Random records of every type and version, written by those schemas, are dumped by Apache Kafka and by us: line for line the same.
"""

import json
import random
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.primitives import Writer

pytestmark = pytest.mark.kafka

RECORDS_OF_A_VERSION = 12
SECRET = re.compile(r'"(salt|storedKey|serverKey)":"[^"]*"')
"""What our tool hides of a user's credential, and Kafka's shows."""
TOPICS = {"group": "--offsets-decoder", "transaction": "--transaction-log-decoder", "metadata": "--cluster-metadata-decoder"}


def versions(text: str | None) -> range:
    """ "0", "1-3", "2+" or "none" as Kafka's schemas write it."""
    if text is None or text == "none":
        return range(0)
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), 1000 if text.endswith("+") else int(last or first) + 1)


class RandomRecords:
    """Writes random bytes that one schema of Kafka allows."""

    def __init__(self, schema: dict[str, Any], rng: random.Random) -> None:
        self.schema = schema
        self._rng = rng
        self._structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
        self._flexible = versions(schema["flexibleVersions"])

    def write(self, out: Writer, version: int) -> bytes:
        self._fields(out, self.schema["fields"], version)
        return out.to_bytes()

    def _fields(self, out: Writer, fields: list[dict[str, Any]], version: int) -> None:
        tagged = {}
        for field in fields:
            if version in versions(field.get("taggedVersions")):
                if self._rng.random() < 0.6:
                    inner = Writer()
                    self._field(inner, field, version)
                    tagged[field["tag"]] = inner.to_bytes()
            elif version in versions(field.get("versions")):
                self._field(out, field, version)
        if version in self._flexible:
            if self._rng.random() < 0.2:
                tagged[77] = b"of a later version"
            out.uvarint(len(tagged))
            for tag, data in sorted(tagged.items()):
                out.uvarint(tag).uvarint(len(data)).raw(data)

    def _field(self, out: Writer, field: dict[str, Any], version: int) -> None:
        is_nullable = version in versions(field.get("nullableVersions"))
        is_null = is_nullable and self._rng.random() < 0.3
        kind = field["type"]
        if not kind.startswith("[]"):
            if is_nullable and kind[0].isupper():
                self._presence(out, field, is_null)
            self._item(out, kind, field, version, is_null)
            return
        count = -1 if is_null else self._rng.randrange(4)
        self._length(out, count, version)
        for _ in range(count):
            self._item(out, kind[2:], field, version, False)

    def _length(self, out: Writer, length: int, version: int) -> None:
        if version in self._flexible:
            out.uvarint(length + 1)
        else:
            out.int32(length)

    def _item(self, out: Writer, kind: str, field: dict[str, Any], version: int, is_null: bool) -> None:
        if kind == "string":
            text = None if is_null else "".join(self._rng.choice('abcž"\\\n€-_') for _ in range(self._rng.randrange(6)))
            out.flexible = version in self._flexible
            out.nullable_string(text)
        elif kind == "bytes":
            data = self._rng.randbytes(self._rng.randrange(9))
            self._length(out, -1 if is_null else len(data), version)
            out.raw(b"" if is_null else data)
        elif kind == "bool":
            out.boolean(self._rng.random() < 0.5)
        elif kind == "float64":
            out.raw(pack(">d", self._rng.randrange(1000) / 8))
        elif kind in ("int8", "int16", "uint16", "int32", "int64", "uuid"):
            out.raw(self._rng.randbytes(16 if kind == "uuid" else int(kind.rpartition("int")[2]) // 8))
        elif not is_null:
            self._fields(out, field.get("fields") or self._structs[kind], version)

    def _presence(self, out: Writer, field: dict[str, Any], is_null: bool) -> None:
        """What says whether a struct that may be null is there."""
        if "tag" in field:
            out.uvarint(int(not is_null))
        else:
            out.int8(-1 if is_null else 1)


def schemas(jars: Path, topic: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Key and value schema of every record type of a coordinator's topic, as its jar has them."""
    (jar,) = jars.glob(f"kafka-{topic}-coordinator-[0-9]*.jar")
    found: dict[str, dict[int, dict[str, Any]]] = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                schema = json_schema(archive, name)
                found.setdefault(schema["type"], {})[schema["apiKey"]] = schema
    for number in sorted(found["coordinator-key"]):
        yield found["coordinator-key"][number], found["coordinator-value"][number]


def metadata_schemas(jars: Path) -> Iterator[dict[str, Any]]:
    """The schema of every record type of the metadata log."""
    (jar,) = jars.glob("kafka-metadata-[0-9]*.jar")
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            schema = json_schema(archive, name) if name.endswith(".json") else {}
            if schema.get("type") == "metadata":
                yield schema


def json_schema(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """A schema without its comments."""
    lines = archive.read(name).decode().splitlines()
    schema: dict[str, Any] = json.loads("\n".join(line for line in lines if not line.strip().startswith("//")))
    return schema


def random_records(jars: Path, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of every type and version, and a tombstone a type; records of the metadata log have no keys."""
    rng = random.Random(topic)
    records: list[tuple[bytes | None, bytes | None]] = []
    if topic == "metadata":
        for schema in metadata_schemas(jars):
            for version in versions(schema["validVersions"]):
                for _ in range(RECORDS_OF_A_VERSION):
                    head = Writer().uvarint(1).uvarint(schema["apiKey"]).uvarint(version)
                    records.append((None, RandomRecords(schema, rng).write(head, version)))
        return records
    for key_schema, value_schema in schemas(jars, topic):
        key = b""
        for version in versions(value_schema["validVersions"]):
            for _ in range(RECORDS_OF_A_VERSION):
                key = RandomRecords(key_schema, rng).write(Writer().int16(key_schema["apiKey"]), 0)
                records.append((key, RandomRecords(value_schema, rng).write(Writer().int16(version), version)))
        records.append((key, None))
    return records


@pytest.mark.parametrize("topic", TOPICS)
def test_every_type_and_version_is_dumped_as_apache_kafka_dumps_it(topic: str, reference: Any, tmp_path: Path) -> None:
    command = reference.java_command("-Xmx256m", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    records = random_records(Path(reference.class_path()).parent, topic)
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as log:
        for start in range(0, len(records), 7):
            batch = [Record(start + n, 1000, key, value, ()) for n, (key, value) in enumerate(records[start : start + 7])]
            log.write(encode_batch(batch, base_offset=start, codec=Codec(start % len(Codec))))
    arguments = [TOPICS[topic], "--files", str(path)]
    theirs = subprocess.run(
        [*command, "org.apache.kafka.tools.DumpLogSegments", *arguments], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    ours = CliRunner().invoke(main, ["dump-log", *arguments])
    assert "skipping" not in theirs.stdout
    assert ours.stdout.splitlines() == SECRET.sub(r'"\1":"[hidden]"', theirs.stdout).splitlines()
    assert ours.exit_code == 0
    assert ours.stdout.count("| offset: ") == len(records)


def test_what_kafka_cannot_read_either_is_reported_alike(reference: Any, tmp_path: Path) -> None:
    group = b"\x00\x02\x00\x01g"
    pairs: list[tuple[bytes, bytes | None]] = [
        (b"\x00\x09\x00\x01g", b""),
        (b"\x7f\xff", None),
        (group, b"\x00\x09"),
        (group + b"more", None),
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch([Record(n, 1000, key, value, ()) for n, (key, value) in enumerate(pairs)]))
    arguments = ["--offsets-decoder", "--files", str(path)]
    command: Callable[..., list[str]] = reference.java_command
    theirs = subprocess.run(
        command("org.apache.kafka.tools.DumpLogSegments", *arguments), capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert CliRunner().invoke(main, ["dump-log", *arguments]).stdout == theirs.stdout
