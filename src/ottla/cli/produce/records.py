"""Lines of a file or a pipe as records, one after the other. It writes nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.record_json import Headers, RecordToWrite, from_json

_NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """What a line means: a value; key and value around `key_delimiter`; or a JSON object. `null`: a key or value that is null.

    `headers` are those of every record.
    """

    key_delimiter: bytes | None = None
    null: bytes | None = None
    is_json: bool = False
    headers: Headers = ()


def records(lines: Iterable[bytes], form: LineFormat) -> Iterator[tuple[int, RecordToWrite]]:
    """Each line's number, from 1, and its record. Raises CommandFailed for a line that is none."""
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(_NEWLINE)
        try:
            yield number, _from_json(text, form) if form.is_json else _from_text(text, form)
        except ValueError as error:
            raise CommandFailed(f"line {number}: {error}") from error


def _from_json(text: bytes, form: LineFormat) -> RecordToWrite:
    record = from_json(text)
    return record._replace(headers=[*form.headers, *record.headers]) if form.headers else record


def _from_text(text: bytes, form: LineFormat) -> RecordToWrite:
    key: bytes | None = None
    value: bytes | None = text
    if form.key_delimiter is not None:
        key, delimiter, value = text.partition(form.key_delimiter)
        if not delimiter:
            raise ValueError(f"it has no key delimiter {form.key_delimiter.decode()!r}")
    if form.null is not None:
        key, value = (None if each == form.null else each for each in (key, value))
    return RecordToWrite(key, value, form.headers)
