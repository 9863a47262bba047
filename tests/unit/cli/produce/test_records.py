"""Tests of lines as records."""

from typing import Any

import pytest

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.produce.records import LineFormat, records
from ottla.cli.record_json import RecordToWrite


def read(*lines: bytes, **form: Any) -> list[tuple[int, RecordToWrite]]:
    return list(records(lines, LineFormat(**form)))


def test_a_line_is_a_value() -> None:
    assert read(b"a\n", b"\n", b"\xff\r\n", b"last") == [
        (1, RecordToWrite(None, b"a")),
        (2, RecordToWrite(None, b"")),
        (3, RecordToWrite(None, b"\xff\r")),
        (4, RecordToWrite(None, b"last")),
    ]


def test_the_first_delimiter_ends_the_key() -> None:
    assert [each for _, each in read(b"k::v::w\n", b"::v\n", key_delimiter=b"::")] == [
        RecordToWrite(b"k", b"v::w"),
        RecordToWrite(b"", b"v"),
    ]


def test_a_text_for_null() -> None:
    lines = (b"NULL:a\n", b"a:NULL\n", b"a:b\n")
    assert [each[1][:2] for each in read(*lines, key_delimiter=b":", null=b"NULL")] == [(None, b"a"), (b"a", None), (b"a", b"b")]
    assert read(b"\n", null=b"") == [(1, RecordToWrite(None, None))]


def test_headers_of_every_record() -> None:
    headers = [("a", b"1")]
    assert read(b"v", headers=headers) == [(1, RecordToWrite(None, b"v", headers))]
    found = read(b'{"value": "v", "headers": [{"key": "b", "value": "2"}]}', is_json=True, headers=headers)
    assert found == [(1, RecordToWrite(None, b"v", [("a", b"1"), ("b", b"2")]))]


@pytest.mark.parametrize(
    ("line", "form", "why"),
    [
        (b"kv\n", {"key_delimiter": b":"}, "line 2: it has no key delimiter ':'"),
        (b"kv\n", {"is_json": True}, "line 2: it is not JSON"),
    ],
)
def test_a_line_that_is_none_comes_after_those_before_it(line: bytes, form: dict[str, Any], why: str) -> None:
    first = b"{}" if "is_json" in form else b"a:b"
    found = records([first, line], LineFormat(**form))
    assert next(found)[0] == 1
    with pytest.raises(CommandFailed, match=why):
        next(found)
