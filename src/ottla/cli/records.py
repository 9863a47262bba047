"""Records as JSON, one object a line: `ottla consume --json` prints them, `ottla produce --json` reads them; and the line that counts them.

Keys, values and headers' values are text where they are UTF-8, else base64 under a name of its own (`keyBase64`, `valueBase64`).
"""

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TextIO

_TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}
_NAMES: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "timestampType", "key", "keyBase64", "value", "valueBase64", "headers"}
)
_HEADER_NAMES: Final = frozenset({"key", "value", "valueBase64"})
Headers = Sequence[tuple[str, bytes | None]]


class ReadMessage(Protocol):
    """What is printed: a message of `ottla.Consumer`."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def timestamp(self) -> tuple[int, int]: ...


class RecordToWrite(NamedTuple):
    """What of a record its writer chooses. `timestamp_ms` None: the time of writing."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


def to_json(message: ReadMessage) -> str:
    """One record, without the end of the line."""
    kind, timestamp_ms = message.timestamp()
    return json.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": timestamp_ms if kind in _TIMESTAMP_TYPES else None,
            "timestampType": _TIMESTAMP_TYPES.get(kind),
            **_text("key", message.key()),
            **_text("value", message.value()),
            "headers": [{"key": name, **_text("value", value)} for name, value in message.headers() or ()],
        }
    )


def from_json(line: bytes) -> RecordToWrite:
    """Key, value, headers and timestamp of an object; topic, partition and offset are passed over. Raises ValueError with a sentence."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError("it is not a JSON object")
    _check_names(given, _NAMES)
    timestamp_ms = given.get("timestamp")
    if timestamp_ms is not None and (not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool) or not 0 <= timestamp_ms < 2**63):
        raise ValueError("timestamp must be milliseconds since 1970, or null")
    return RecordToWrite(_bytes("key", given), _bytes("value", given), _headers(given.get("headers")), timestamp_ms)


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": b64encode(data).decode()}


def _bytes(name: str, given: Mapping[str, Any]) -> bytes | None:
    coded, text = given.get(f"{name}Base64"), given.get(name)
    if coded is not None:
        if text is not None:
            raise ValueError(f"it has both {name} and {name}Base64")
        try:
            return b64decode(coded, validate=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}Base64 is not base64: {error}") from error
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{name} must be text or null: write what is JSON itself as text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is not Unicode text: {error}") from error


def _headers(given: Any) -> Headers:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(each, dict) and isinstance(each.get("key"), str) for each in given):
        raise ValueError('headers must be a list of {"key": TEXT, "value": TEXT}')
    for each in given:
        _check_names(each, _HEADER_NAMES)
    return [(each["key"], _bytes("value", each)) for each in given]


def _check_names(given: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(sorted(known))}")


_CLEAR_LINE: Final = "\r\x1b[K"
_INTERVAL_S: Final = 0.5


class RecordProgress:
    """Counts records and bytes; shows them on `err` at intervals if that is a terminal and `is_shown`."""

    def __init__(self, err: TextIO, *, is_shown: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self.records = 0
        self.size_bytes = 0
        self._err = err
        self._is_shown = is_shown and err.isatty()
        self._clock = clock
        self._started_s = self._shown_s = clock()

    def add(self, records: int, size_bytes: int) -> None:
        """Count these."""
        self.records += records
        self.size_bytes += size_bytes
        if self._is_shown and self._clock() - self._shown_s >= _INTERVAL_S:
            self._shown_s = self._clock()
            rate = self.records / max(self._shown_s - self._started_s, 0.001)
            self._err.write(f"{_CLEAR_LINE}{self.records:,} records, {self.size_bytes / 1e6:,.1f} MB, {rate:,.0f} records/s (Ctrl-C ends)")
            self._err.flush()

    def say(self, text: str) -> None:
        """A sentence in a line of its own."""
        self._err.write(f"{_CLEAR_LINE if self._is_shown else ''}{text}\n")
        self._err.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
