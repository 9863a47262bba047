"""Tests of the formats of `ottla consume`."""

import json
from typing import Any

import pytest

from ottla.cli.consume.formats import json_lines, text_format


class Record:
    """A message with everything that can be printed."""

    def __init__(self, key: bytes | None = b"k", value: bytes | None = b"v", headers: Any = None, timestamp: Any = (1, 17)) -> None:
        self.key, self.value, self.headers, self.timestamp = (lambda: key), (lambda: value), (lambda: headers), (lambda: timestamp)

    def topic(self) -> str:
        return "flüge"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 40


def test_every_letter() -> None:
    record = Record(b"key", b"\xff\x00", [("a", b"1"), ("b", None)])
    render = text_format(r"%t[%p]@%o %T %K:%k %S:%s (%h) 100%%\n")
    assert render([record]) == "flüge[2]@40 17 3:key 2:".encode() + b"\xff\x00 (a=1,b=) 100%\n"
    assert render([record, record]) == 2 * render([record])
    assert render([]) == b""


def test_null_is_nothing_or_a_text() -> None:
    record = Record(None, None, [("h", None)], (0, 0))
    assert text_format("%k|%s|%K|%S|%h|%T")([record]) == b"||-1|-1|h=|-1"
    assert text_format("%k|%s|%h", null=b"NULL")([record]) == b"NULL|NULL|h=NULL"


def test_escapes() -> None:
    assert text_format(r"\t\n\r\0\\\x25\x1e%s")([Record()]) == b"\t\n\r\0\\%\x1ev"


@pytest.mark.parametrize(
    ("text", "why"), [("%z", "%z is none of %t, %p"), (r"\q", r"\\q is none of"), ("\\", r"\\ is none of"), ("x%", "% is none of")]
)
def test_what_a_format_does_not_have(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        text_format(text)


def test_json() -> None:
    lines = json_lines([Record(), Record(None)]).splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["k", None]
