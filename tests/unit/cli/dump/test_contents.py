"""Decoding a coordinator's record for people, and counting what is not known."""

import pytest

from ottla.cli.dump.contents import Contents, Undecoded, reader_for
from ottla.core.model import Record
from ottla.core.records.schema import DecodedRecord


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(5, 0, key, value, ())


@pytest.mark.parametrize("contents", [Contents.NOTHING, Contents.TEXT])
def test_text_needs_no_decoder(contents: Contents) -> None:
    assert reader_for(contents) is None


@pytest.mark.parametrize(
    ("contents", "key", "data"),
    [(Contents.OFFSETS, "0002000167", {"group": "g"}), (Contents.TRANSACTIONS, "0000000167", {"transactionalId": "g"})],
)
def test_each_decoder_reads_its_topic(contents: Contents, key: str, data: dict[str, str]) -> None:
    reader = reader_for(contents)
    assert reader is not None
    found = reader.read(record(bytes.fromhex(key), None))
    assert isinstance(found, DecodedRecord)
    assert found.key == data


def test_unknown_records_are_counted_and_no_fault() -> None:
    reader = reader_for(Contents.OFFSETS)
    assert reader is not None
    assert reader.read(record(b"\x00\x63", None)) == Undecoded("Unknown record type 99 at offset 5, skipping.", False)
    again = Undecoded("Error at offset 5, skipping. Found an unknown record version 9 for 2 type", False)
    assert reader.read(record(b"\x00\x02\x00\x01g", b"\x00\x09")) == again
    assert reader.read(record(b"\x00\x63", None)).sentence  # type: ignore[union-attr]
    assert reader.unknown == {(99, None): 2, (2, 9): 1}


def test_damage_is_a_fault() -> None:
    reader = reader_for(Contents.OFFSETS)
    assert reader is not None
    found = reader.read(record(None, None))
    assert isinstance(found, Undecoded)
    assert found.is_fault
    assert not reader.unknown
