"""Records as JSON, there and back, and the line that counts them."""

import io
import json
from typing import Any

import pytest

from ottla.cli.records import RecordProgress, RecordToWrite, from_json, to_json
from ottla.client.consumer.message import Message, messages_of


class Columns:
    topic, partition = "flights", 3

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None, timestamp: tuple[int, int] = (1, 1_700_000_000_000)):
        self.keys, self.values, self.offsets = [key], [value], [42]
        self._row = (headers, timestamp)

    def leader_epoch(self, _: int) -> int:
        return 0

    def headers(self, _: int) -> Any:
        return self._row[0]

    def timestamp(self, _: int) -> tuple[int, int]:
        return self._row[1]


def message(*values: Any, **more: Any) -> Message:
    return messages_of(Columns(*values, **more), 0, 1)[0]


def test_a_record_as_json() -> None:
    assert json.loads(to_json(message(b"k", "ü".encode(), [("h", b"1"), ("n", None), ("b", b"\xff")]))) == {
        "topic": "flights",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "timestampType": "CreateTime",
        "key": "k",
        "value": "ü",
        "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}, {"key": "b", "valueBase64": "/w=="}],
    }


def test_bytes_that_are_not_text_and_times_that_are_not_known() -> None:
    found = json.loads(to_json(message(b"\xff\x00", None, timestamp=(0, 0))))
    assert (found["keyBase64"], found["value"]) == ("/wA=", None)
    assert "key" not in found
    assert (found["timestamp"], found["timestampType"], found["headers"]) == (None, None, [])
    assert json.loads(to_json(message(None, b"", timestamp=(2, 5))))["timestampType"] == "LogAppendTime"


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [(b"k", b"v", ()), (None, None, ()), (b"\xff", b"\x00\x80", [("a", b"\xfe"), ("b", None), ("c", b"")]), (b"", b'{"a": 1}\n', ())],
)
def test_what_is_printed_can_be_written_again(key: Any, value: Any, headers: Any) -> None:
    printed = to_json(message(key, value, list(headers) or None)).encode()
    found = from_json(printed)
    assert found._replace(headers=tuple(found.headers)) == RecordToWrite(key, value, tuple(headers), 1_700_000_000_000)


def test_what_is_left_out_is_null() -> None:
    assert from_json(b"{}") == RecordToWrite(None, None, (), None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'{"vlaue": "x"}', "'vlaue' is none of headers, key,"),
        (b'{"key": 1}', "key must be text or null"),
        (b'{"value": {"a": 1}}', "value must be text or null"),
        (b'{"value": "\\ud800"}', "value is not Unicode text"),
        (b'{"key": "a", "keyBase64": "YQ=="}', "it has both key and keyBase64"),
        (b'{"keyBase64": "?"}', "keyBase64 is not base64"),
        (b'{"keyBase64": 1}', "keyBase64 is not base64"),
        (b'{"timestamp": "now"}', "timestamp must be milliseconds"),
        (b'{"timestamp": -1}', "timestamp must be milliseconds"),
        (b'{"timestamp": true}', "timestamp must be milliseconds"),
        (b'{"timestamp": 9223372036854775808}', "timestamp must be milliseconds"),
        (b'{"headers": {"a": "b"}}', "headers must be a list"),
        (b'{"headers": [{"value": "b"}]}', "headers must be a list"),
        (b'{"headers": [{"key": "a", "vlaue": "b"}]}', "'vlaue' is none of"),
    ],
)
def test_lines_that_are_no_records(line: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        from_json(line)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_counts_at_intervals() -> None:
    err, times = Terminal(), iter([0.0, 0.1, 2.0, 2.0])
    progress = RecordProgress(err, clock=lambda: next(times))
    progress.add(10, 1_000)
    assert err.getvalue() == ""
    progress.add(1_990, 999_000)
    assert err.getvalue() == "\r\x1b[K2,000 records, 1.0 MB, 1,000 records/s (Ctrl-C ends)"
    progress.end()
    assert err.getvalue().endswith("\r\x1b[K")


def test_a_sentence_replaces_the_line() -> None:
    err = Terminal()
    RecordProgress(err).say("The broker is gone.")
    assert err.getvalue() == "\r\x1b[KThe broker is gone.\n"


def test_a_file_gets_sentences_only() -> None:
    for err, is_shown in ((io.StringIO(), True), (Terminal(), False)):
        times = iter(range(100))
        progress = RecordProgress(err, is_shown=is_shown, clock=lambda times=times: float(next(times)))  # type: ignore[misc]
        progress.add(1, 1)
        progress.say("A sentence.")
        progress.end()
        assert err.getvalue() == "A sentence.\n"
        assert (progress.records, progress.size_bytes) == (1, 1)
