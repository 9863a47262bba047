"""Large responses, encoded in pieces: for each message class a generator that yields after every few elements and ends with the bytes.

Values come as for `messages.response_encoder`: nested mappings with the fields of all versions. An array may be any iterable, also a
generator; then the response is never in memory as objects, only as bytes. Such an iterable may give None for a piece of work without an
item. Of tagged fields, those of fixed size are written: none of these responses has another one that is not its default. Tests hold it to
kio's bytes.
"""

import dataclasses
import datetime
import struct
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.bounds import is_array, is_nullable, nested_entity
from ottla.protocol.wire.messages import response_class
from ottla.protocol.wire.primitives import Buffer, Writer

PIECE: Final = 64
"""So many structures are encoded before other requests continue: about 0.2 ms."""
RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Bytes that are made for one response; what is in memory already, such as a member's metadata, is not copied and does not count."""
FRAME_BYTES_MAX: Final = 2**31 - 1024
SHARED_BYTES_MIN: Final = 16 * 1024
"""Longer bytes become a part of the response as they are, without a copy."""

Values = Mapping[str, Any]
Writing = Generator[None, None, list[Buffer]]
_Write = Callable[["_Out", Values], None]
_WriteInPieces = Callable[["_Out", Values], Generator[None, None, None]]

_CODES: Final = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "error_code": "h", "int32": "i", "timedelta_i32": "i", "int64": "q",
    "timedelta_i64": "q", "datetime_i64": "q", "float64": "d",
}  # fmt: skip
_NO_ID: Final = bytes(16)
_ABSENT: Final = b"\xff"
_PRESENT: Final = b"\x01"
_CHARACTER_BYTES_MAX: Final = 4


class _Out(Writer):
    """The bytes of a response, in parts."""

    __slots__ = ("made_bytes", "parts", "shared_bytes", "since_yield")

    def __init__(self, flexible: bool) -> None:
        super().__init__(flexible)
        self.parts: list[Buffer] = []
        self.made_bytes = self.shared_bytes = self.since_yield = 0

    def end_part(self) -> None:
        self.made_bytes += len(self.data)
        self.parts.append(self.data)
        self.data = bytearray()

    def add(self, value: bytes) -> None:
        """Bytes as they are; long ones become a part of their own."""
        if len(value) < SHARED_BYTES_MIN:
            self.data += value
            return
        self.end_part()
        self.parts.append(value)
        self.shared_bytes += len(value)

    def check_size(self) -> None:
        made = self.made_bytes + len(self.data)
        if made > RESPONSE_BYTES_MAX or made + self.shared_bytes > FRAME_BYTES_MAX:
            raise PeerError(f"a response of more than {RESPONSE_BYTES_MAX} bytes: ask for less at a time")


def write_in_pieces(key: int, version: int, values: Values) -> Writing:
    """The body of a response: the generator's value. It raises PeerError when that is too large, and what the values' iterables raise."""
    out = _Out(response_class(key, version).__flexible__)
    yield from _writer(key, version)(out, values)
    out.check_size()
    out.end_part()
    return out.parts


@cache
def _writer(key: int, version: int) -> _WriteInPieces:
    at_once, in_pieces = _structure(response_class(key, version))
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
    end = _end(entity)
    steps: list[tuple[_Write | None, _WriteInPieces | None]] = []
    fixed: list[dataclasses.Field[Any]] = []
    for field in fields:
        if _is_fixed(field):
            fixed.append(field)
            continue
        if fixed:
            steps.append((_fixed(fixed), None))
            fixed = []
        steps.append(_field(field))
    if fixed:
        steps.append((_fixed(fixed), None))
    writes = [write for write, _ in steps if write is not None]
    if len(writes) == len(steps):

        def write_at_once(out: _Out, values: Values) -> None:
            for write in writes:
                write(out, values)
            out.data += end(values)

        return write_at_once, None

    def write_in_pieces(out: _Out, values: Values) -> Generator[None, None, None]:
        for write, in_pieces in steps:
            if write is not None:
                write(out, values)
            elif in_pieces is not None:
                yield from in_pieces(out, values)
        out.data += end(values)

    return None, write_in_pieces


def _end(entity: type[Any]) -> Callable[[Values], bytes]:
    """The tagged fields at the end of a structure; those of fixed size that differ from their default are written."""
    if not entity.__flexible__:
        return lambda _: b""
    tagged = [field for field in dataclasses.fields(entity) if "tag" in field.metadata and _is_fixed(field)]
    if not tagged:
        return lambda _: b"\0"
    packs = [(field.metadata["tag"], field.name, struct.Struct(">" + _CODES[field.metadata["kafka_type"]]).pack) for field in tagged]

    def end(values: Values) -> bytes:
        found = [(tag, pack(values[name])) for tag, name, pack in packs if values.get(name)]
        return bytes((len(found),)) + b"".join(bytes((tag, len(data))) + data for tag, data in found)

    return end


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


def _field(field: "dataclasses.Field[Any]") -> tuple[_Write | None, _WriteInPieces | None]:
    nested = nested_entity(field)
    if nested is not None and is_array(field):
        return None, _structures(field.name, *_structure(nested))
    if nested is not None and is_nullable(field):
        return _nullable_structure(field, nested), None
    if nested is not None:
        return _plain_structure(field.name, *_structure(nested))
    kind, name = field.metadata["kafka_type"], field.name
    is_required = field.default is dataclasses.MISSING
    write_value = _array(kind) if is_array(field) else _sized(kind)
    nullable = is_nullable(field)

    def write(out: _Out, values: Values) -> None:
        value = values[name] if is_required else values.get(name, field.default)
        assert value is not None or nullable, f"{name} must not be null"
        write_value(out, value)

    return write, None


def _nullable_structure(field: "dataclasses.Field[Any]", entity: type[Any]) -> _Write:
    """A structure without arrays behind a byte that states whether it is there (KIP-893)."""
    at_once, _ = _structure(entity)
    assert at_once is not None, f"{field.name} has arrays"
    name = field.name

    def write(out: _Out, values: Values) -> None:
        value = values.get(name)
        out.data += _ABSENT if value is None else _PRESENT
        if value is not None:
            at_once(out, value)

    return write


def _plain_structure(name: str, at_once: _Write | None, in_pieces: _WriteInPieces | None) -> tuple[_Write | None, _WriteInPieces | None]:
    """A structure that is always there."""
    if at_once is not None:
        return lambda out, values: at_once(out, values[name]), None
    assert in_pieces is not None
    return None, lambda out, values: in_pieces(out, values[name])


def _array(kind: str) -> Callable[["_Out", Any], None]:
    return _write_texts if kind == "string" else _numbers(kind)


def _write_texts(out: _Out, texts: Any) -> None:
    if texts is None:
        out.array(-1)
        return
    out.array(len(texts))
    for text in texts:
        _write_text(out, text)


def _numbers(kind: str) -> Callable[["_Out", Any], None]:
    code = _CODES[kind]

    def write(out: _Out, values: Any) -> None:
        if values is None:
            out.array(-1)
            return
        out.array(len(values))
        out.data += struct.pack(f">{len(values)}{code}", *values)

    return write


def _sized(kind: str) -> Callable[["_Out", Any], None]:
    """Texts, bytes and ids."""
    return _write_id if kind == "uuid" else _write_text if kind == "string" else _write_bytes


def _write_text(out: _Out, text: str | None) -> None:
    if text is None:
        out.string_length(-1)
    elif len(text) < SHARED_BYTES_MIN // _CHARACTER_BYTES_MAX:
        out.string(text)
    else:
        data = text.encode()
        out.string_length(len(data)).add(data)


def _write_bytes(out: _Out, data: bytes | None) -> None:
    if data is None:
        out.octets_length(-1)
    elif len(data) < SHARED_BYTES_MIN:
        out.octets(data)
    else:
        out.octets_length(len(data)).add(data)


def _write_id(out: _Out, value: Any) -> None:
    """A UUID, or None."""
    out.data += _NO_ID if value is None else value.bytes


def _structures(name: str, at_once: _Write | None, in_pieces: _WriteInPieces | None) -> _WriteInPieces:
    """An array of structures. Its length is put before its items when they are written, since they may come one by one."""

    def write(out: _Out, values: Values) -> Generator[None, None, None]:
        items: Iterable[Values | None] | None = values[name]
        if items is None:
            out.array(-1)
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
        data[at:at] = Writer(out.flexible).array(count).data

    return write
