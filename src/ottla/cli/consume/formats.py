"""How records are printed: kcat's formats, and JSON. It writes nothing.

Source: kcat's `-f` (format.c): %t topic, %p partition, %o offset, %k key, %K its bytes, %s value, %S its bytes, %T timestamp, %h headers.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from ottla.cli.record_json import Message, to_json

Render = Callable[[Sequence[Message]], bytes]
"""What records look like on stdout."""

_PIECE: Final = re.compile(r"%(?P<letter>.?)|\\(?P<escape>x[0-9a-fA-F]{1,2}|.?)|(?P<literal>[^%\\]+)", re.DOTALL)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_NOT_THERE: Final = b"-1"
"""The size of a key or value that is null."""


def json_lines(records: Sequence[Message]) -> bytes:
    """One JSON object a line."""
    return b"".join([to_json(record).encode() + b"\n" for record in records])


def text_format(text: str, *, null: bytes = b"") -> Render:
    """A format of kcat's; `null` stands for keys and values that are null. Raises ValueError for a letter that it does not have."""
    template, getters = b"", []
    known = _getters(null)
    for found in _PIECE.finditer(text):
        piece = found[found.lastgroup or 0]
        if found.lastgroup == "literal":
            template += piece.encode().replace(b"%", b"%%")
        elif found.lastgroup == "escape":
            template += _escaped(piece)
        elif piece == "%":
            template += b"%%"
        elif piece in known:
            template += b"%b"
            getters.append(known[piece])
        else:
            raise ValueError(f"%{piece} is none of %{', %'.join(known)} and %%")
    return lambda records: b"".join([template % tuple([get(record) for get in getters]) for record in records])


def _escaped(escape: str) -> bytes:
    if escape.startswith("x") and len(escape) > 1:
        return bytes([int(escape[1:], 16)]).replace(b"%", b"%%")
    if escape not in _ESCAPES:
        raise ValueError(f"\\{escape} is none of \\n, \\t, \\r, \\0, \\\\ and \\xHH")
    return _ESCAPES[escape]


def _getters(null: bytes) -> dict[str, Callable[[Message], bytes]]:
    def key(record: Message) -> bytes:
        found = record.key()
        return null if found is None else found

    def value(record: Message) -> bytes:
        found = record.value()
        return null if found is None else found

    def headers(record: Message) -> bytes:
        return b",".join([name.encode() + b"=" + (null if found is None else found) for name, found in record.headers() or ()])

    return {
        "t": lambda record: (record.topic() or "").encode(),
        "p": lambda record: b"%d" % (record.partition() or 0),
        "o": lambda record: b"%d" % (record.offset() or 0),
        "k": key,
        "K": lambda record: _size(record.key()),
        "s": value,
        "S": lambda record: _size(record.value()),
        "T": _time,
        "h": headers,
    }


def _size(data: bytes | None) -> bytes:
    return _NOT_THERE if data is None else b"%d" % len(data)


def _time(record: Message) -> bytes:
    kind, time_ms = record.timestamp()
    return b"%d" % time_ms if kind else _NOT_THERE
