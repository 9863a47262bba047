"""Typed arrays and the one container that holds them behind the JSON of a story: what a page reads without parsing numbers.

The container: `OTLASTRY`, the length of the JSON (u32), the JSON in UTF-8, zero bytes up to a multiple of 8, then each array, its bytes
followed by zero bytes up to a multiple of 8. All numbers are little-endian. In the JSON an array stands as
`{"type": "u8", "at": 0, "count": 3}`: `at` counts bytes from the end of the padded JSON.
"""

import json
import sys
from array import array
from collections.abc import Iterable
from typing import Any, Final

MAGIC: Final = b"OTLASTRY"
_TYPES: Final = {"B": "u8", "H": "u16", "I": "u32"}
_LARGEST: Final = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF}
_ALIGN: Final = 8


def unsigned(values: Iterable[int], *, largest: int) -> "array[int]":
    """The smallest array of unsigned numbers that can hold `largest`."""
    for code, limit in _LARGEST.items():
        if largest <= limit:
            return array(code, values)
    raise ValueError(f"{largest} does not fit into 32 bits")


def pack(document: Any) -> bytes:
    """A document of JSON values and arrays as one container."""
    chunks: list[bytes] = []
    size = 0

    def place(value: Any) -> dict[str, Any]:
        nonlocal size
        if not isinstance(value, array):
            raise TypeError(f"{type(value).__name__} is no JSON value")
        given = value if sys.byteorder == "little" else _swapped(value)
        chunk = given.tobytes()
        chunk += bytes(-len(chunk) % _ALIGN)
        placed = {"type": _TYPES[value.typecode], "at": size, "count": len(value)}
        chunks.append(chunk)
        size += len(chunk)
        return placed

    text = json.dumps(document, default=place, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    head = MAGIC + len(text).to_bytes(4, "little") + text
    return b"".join([head, bytes(-len(head) % _ALIGN), *chunks])


def unpack(data: bytes) -> Any:
    """A document with its arrays, from a container. Raises ValueError for bytes that are none."""
    length = int.from_bytes(data[8:12], "little")
    if data[:8] != MAGIC or 12 + length > len(data):
        raise ValueError("these bytes are no story: write one with `ottla report`")
    base = (12 + length + _ALIGN - 1) // _ALIGN * _ALIGN
    codes = {name: code for code, name in _TYPES.items()}

    def fill(value: dict[str, Any]) -> Any:
        if value.keys() != {"type", "at", "count"}:
            return value
        found = array(codes[value["type"]])
        start = base + value["at"]
        found.frombytes(data[start : start + value["count"] * found.itemsize])
        return found if sys.byteorder == "little" else _swapped(found)

    return json.loads(data[12 : 12 + length], object_hook=fill)


def plain(document: Any) -> Any:
    """The document with its arrays as lists: for programs that read JSON."""
    if isinstance(document, array):
        return document.tolist()
    if isinstance(document, dict):
        return {name: plain(value) for name, value in document.items()}
    return [plain(value) for value in document] if isinstance(document, list | tuple) else document


def _swapped(values: "array[int]") -> "array[int]":
    copy = values[:]
    copy.byteswap()
    return copy
