"""Large answers, encoded in pieces: for each message class a generator that yields after every few elements and ends with the bytes.

Values come as for `messages.response_encoder`: nested mappings with the fields of all versions. An array may be any iterable, also a
generator; then the answer is never in memory as objects, only as bytes. Such an iterable may give None for a piece of work without an
item. Tagged fields are left out: none of these answers has one that is not its default. Tests hold it to kio's bytes.
"""

import dataclasses
import datetime
import struct
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final

from kio.static.constants import EntityType

from ottla.broker.messages import entity_of
from ottla.broker.pack import uvarint
from ottla.core.bounds import is_array, is_nullable, nested_entity
from ottla.core.errors import PeerError
from ottla.core.wire import Buffer

PIECE: Final = 64
"""So many structures are encoded before other requests continue: about 0.2 ms."""
ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
"""Bytes that are made for one answer; what is in memory already, such as a member's metadata, is not copied and does not count."""
FRAME_BYTES_MAX: Final = 2**31 - 1024
SHARED_BYTES_MIN: Final = 16 * 1024
"""Longer bytes become a part of the answer as they are, without a copy."""

Values = Mapping[str, Any]
Writing = Generator[None, None, list[Buffer]]
_Write = Callable[["_Out", Values], None]
_WriteInPieces = Callable[["_Out", Values], Generator[None, None, None]]

_CODES: Final = {
    "bool": "?", "int8": "b", "int16": "h", "error_code": "h", "int32": "i", "timedelta_i32": "i", "int64": "q",
}  # fmt: skip
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NO_ID: Final = bytes(16)


class _Out:
    """The bytes of an answer, in parts."""

    __slots__ = ("data", "made_bytes", "parts", "shared_bytes", "since_yield")

    def __init__(self) -> None:
        self.data = bytearray()
        self.parts: list[Buffer] = []
        self.made_bytes = self.shared_bytes = self.since_yield = 0

    def end_part(self) -> None:
        self.made_bytes += len(self.data)
        self.parts.append(self.data)
        self.data = bytearray()

    def share(self, value: bytes) -> None:
        self.end_part()
        self.parts.append(value)
        self.shared_bytes += len(value)

    def check_size(self) -> None:
        made = self.made_bytes + len(self.data)
        if made > ANSWER_BYTES_MAX or made + self.shared_bytes > FRAME_BYTES_MAX:
            raise PeerError(f"an answer of more than {ANSWER_BYTES_MAX} bytes: ask for less at a time")


def write_in_pieces(key: int, version: int, values: Values) -> Writing:
    """The body of an answer: the generator's value. It raises PeerError when that is too large, and what the values' iterables raise."""
    out = _Out()
    yield from _writer(key, version)(out, values)
    out.check_size()
    out.end_part()
    return out.parts


@cache
def _writer(key: int, version: int) -> _WriteInPieces:
    at_once, in_pieces = _structure(entity_of(key, version, EntityType.response))
    if in_pieces is not None:
        return in_pieces

    def write(out: _Out, values: Values) -> Generator[None, None, None]:
        assert at_once is not None
        at_once(out, values)
        yield from ()

    return write


def _structure(entity: type[Any]) -> tuple[_Write, None] | tuple[None, _WriteInPieces]:
    """How a structure is written: at once, or in pieces if it has arrays of structures."""
    fields = [field for field in dataclasses.fields(entity) if "tag" not in field.metadata]
    end = b"\0" if entity.__flexible__ else b""
    steps: list[tuple[_Write | None, _WriteInPieces | None]] = []
    fixed: list[dataclasses.Field[Any]] = []
    for field in fields:
        if _is_fixed(field):
            fixed.append(field)
            continue
        if fixed:
            steps.append((_fixed(fixed), None))
            fixed = []
        steps.append(_field(field, bool(entity.__flexible__)))
    if fixed:
        steps.append((_fixed(fixed), None))
    writes = [write for write, _ in steps if write is not None]
    if len(writes) == len(steps):

        def write_at_once(out: _Out, values: Values) -> None:
            for write in writes:
                write(out, values)
            out.data += end

        return write_at_once, None

    def write_in_pieces(out: _Out, values: Values) -> Generator[None, None, None]:
        for write, in_pieces in steps:
            if write is not None:
                write(out, values)
            elif in_pieces is not None:
                yield from in_pieces(out, values)
        out.data += end

    return None, write_in_pieces


def _is_fixed(field: "dataclasses.Field[Any]") -> bool:
    return not is_array(field) and field.metadata.get("kafka_type") in _CODES


def _fixed(fields: list["dataclasses.Field[Any]"]) -> _Write:
    """Fields of fixed size that follow each other, by one call."""
    pack = struct.Struct(">" + "".join(_CODES[field.metadata["kafka_type"]] for field in fields)).pack
    names = [field.name for field in fields]
    get = itemgetter(*names)
    defaults = {field.name: _default(field) for field in fields if field.default is not dataclasses.MISSING}

    def write(out: _Out, values: Values) -> None:
        try:
            found = get(values)
        except KeyError:
            found = get({**defaults, **values})
        out.data += pack(found) if len(names) == 1 else pack(*found)

    return write


def _default(field: "dataclasses.Field[Any]") -> Any:
    if isinstance(field.default, datetime.timedelta):
        return field.default // datetime.timedelta(milliseconds=1)
    return field.default


def _field(field: "dataclasses.Field[Any]", flexible: bool) -> tuple[_Write | None, _WriteInPieces | None]:
    nested = nested_entity(field)
    if nested is not None and is_array(field):
        return None, _structures(field.name, *_structure(nested), flexible=flexible)
    kind, name = field.metadata["kafka_type"], field.name
    is_required = field.default is dataclasses.MISSING
    write_value = _numbers(kind, flexible) if is_array(field) else _sized(kind, flexible)
    nullable = is_nullable(field)

    def write(out: _Out, values: Values) -> None:
        value = values[name] if is_required else values.get(name, field.default)
        assert value is not None or nullable, f"{name} must not be null"
        write_value(out, value)

    return write, None


def _length(out: _Out, length: int, flexible: bool, width: struct.Struct) -> None:
    if not flexible:
        out.data += width.pack(length)
    elif length < 0x7F:
        out.data.append(length + 1)
    else:
        out.data += uvarint(length + 1)


def _numbers(kind: str, flexible: bool) -> Callable[["_Out", Any], None]:
    code = _CODES[kind]

    def write(out: _Out, values: Any) -> None:
        _length(out, len(values), flexible, _INT32)
        out.data += struct.pack(f">{len(values)}{code}", *values)

    return write


def _sized(kind: str, flexible: bool) -> Callable[["_Out", Any], None]:
    """Texts, bytes and ids."""
    if kind == "uuid":
        return _write_id
    width = _INT16 if kind == "string" else _INT32

    def write(out: _Out, value: Any) -> None:
        if value is None:
            _length(out, -1, flexible, width)
            return
        data = value.encode() if kind == "string" else value
        _length(out, len(data), flexible, width)
        if len(data) < SHARED_BYTES_MIN:
            out.data += data
        else:
            out.share(data)

    return write


def _write_id(out: _Out, value: uuid.UUID | None) -> None:
    out.data += _NO_ID if value is None else value.bytes


def _structures(name: str, at_once: _Write | None, in_pieces: _WriteInPieces | None, *, flexible: bool) -> _WriteInPieces:
    """An array of structures. Its length is put before its items when they are written, since they may come one by one."""

    def write(out: _Out, values: Values) -> Generator[None, None, None]:
        items: Iterable[Values | None] | None = values[name]
        if items is None:
            _length(out, -1, flexible, _INT32)
            return
        place, at = len(out.parts), len(out.data)
        count = 0
        for item in items:
            if item is None:
                yield
                continue
            count += 1
            if at_once is not None:
                at_once(out, item)
            elif in_pieces is not None:
                yield from in_pieces(out, item)
            out.since_yield += 1
            if out.since_yield >= PIECE:
                out.since_yield = 0
                out.check_size()
                yield
        data = out.parts[place] if place < len(out.parts) else out.data
        assert isinstance(data, bytearray)
        data[at:at] = uvarint(count + 1) if flexible else _INT32.pack(count)

    return write
