"""Answers with an error to requests that are not handled: one error of the whole where a response has it, else one of each item.

They are too large, or their client is in the middle of its authentication.

Items are what a request names: topics, partitions, groups, resources. A response repeats their names and has an error for each of them;
which field of the one is which field of the other is read from the message classes. Kafka has no limits of size.
"""

import dataclasses
import logging
from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Any, Final

from ottla.broker.network.request import Request
from ottla.protocol.errors import ErrorCode, RequestTooLarge
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.bounds import Entity, is_array, is_nullable, kind_of, nested_entity, untagged_fields
from ottla.protocol.wire.messages import encode, fitter, request_class, response_class
from ottla.protocol.wire.request_reading import ELEMENTS_MAX, read_in_pieces
from ottla.text import printable

log = logging.getLogger(__name__)

NAMED_MAX: Final = 2 * ELEMENTS_MAX
"""A request with more elements is not read, and cannot be answered by its items. Each takes up to 400 bytes while it is answered."""
_CODES: Final = {ApiKey.OFFSET_COMMIT: ErrorCode.INVALID_COMMIT_OFFSET_SIZE, ApiKey.TXN_OFFSET_COMMIT: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
"""Kafka's answers where an API has one for too much at once; INVALID_REQUEST elsewhere."""
_NAMES: Final = {
    **{name: (name,) for name in ("name", "topic", "topic_id", "index", "partition", "group_id", "producer_id")},
    **{name: (name,) for name in ("resource_type", "resource_name")},
    "partition_index": ("partition_index", "partition"),
}
"""The fields of a response that say which item is meant, and what requests call them."""
_UNKNOWN: Final = ("base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port")
"""Numbers that are -1 in Kafka's answers with an error, though the schema has no default."""

Values = dict[str, Any]
_Answer = Callable[[Any, ErrorCode, str], Values]
"""From a request, or one of its items, to what the response has for it: with this code and this text."""


def refuse(request: Request, buffer: memoryview, error: RequestTooLarge) -> Generator[None, None, None]:
    """Answer a request that is too large; work for the scheduler. `buffer` has the request's bytes and is its own.

    Raises `error`, which closes the connection, where the response has no error for it.
    """
    code = _CODES.get(ApiKey(request.key), ErrorCode.INVALID_REQUEST)
    if not (yield from answer_with_error(request, buffer, code, str(error))):
        raise error
    log.warning("refusing a request from %s with %s: %s", request.session.client_host, code.name, printable(str(error)))


def answer_with_error(request: Request, buffer: memoryview, code: ErrorCode, text: str) -> Generator[None, None, bool]:
    """Answer a request with an error, in steps; False where its response has none. Raises PeerError for what cannot be read."""
    entity = response_class(request.key, request.version)
    if any(field.name == "error_code" for field in untagged_fields(entity)):
        request.reply_body([encode(fitter(entity, is_lenient=True)({"error_code": code, "error_message": text}))])
        return True
    answer = answer_of_items(request.key, request.version)
    if answer is None:
        return False
    message = yield from read_in_pieces(request.key, request.version, buffer, request.body_at, NAMED_MAX)
    if request.key == ApiKey.PRODUCE and message.acks == 0:
        return False  # its client expects no response
    yield from request.reply_in_pieces(answer(message, code, text))
    return True


@cache
def answer_of_items(key: int, version: int) -> _Answer | None:
    """How a response of an API refuses each item of the request; None where it cannot."""
    return _of_arrays(request_class(key, version), response_class(key, version))


def _of_arrays(asked: Entity, answer: Entity) -> _Answer | None:
    """For a structure whose errors are in those of one of its arrays."""
    arrays = [field for field in untagged_fields(asked) if is_array(field)]
    for field in untagged_fields(answer):
        nested = nested_entity(field) if is_array(field) else None
        for array in arrays:
            answer_item = None if nested is None else _of_item(nested_entity(array), nested)
            if answer_item is not None:
                return _with_items(answer, _names(asked, answer), array.name, field.name, answer_item)
    return None


def _with_items(entity: Entity, names: Mapping[str, str], array: str, answers: str, answer_item: _Answer) -> _Answer:
    empty = _empty(entity)

    def answer(item: Any, code: ErrorCode, text: str) -> Values:
        items = (answer_item(each, code, text) for each in getattr(item, array) or ())
        return {**empty, **{name: getattr(item, source) for name, source in names.items()}, answers: items}

    return answer


def _of_item(asked: Entity | None, answer: Entity) -> _Answer | None:
    """For one item. `asked` None: the request has only its name, or number."""
    fields = untagged_fields(answer)
    errors = [field.name for field in fields if kind_of(field) == "error_code"]
    names = _names(asked, answer)
    if asked is not None and not names:
        return None
    if not errors:
        return None if asked is None else _of_arrays(asked, answer)
    empty, texts = _empty(answer), [field.name for field in fields if field.name == "error_message"]
    own_name = next(field.name for field in fields if field.name not in (*errors, *texts))

    def answer_item(item: Any, code: ErrorCode, text: str) -> Values:
        named = {own_name: item} if asked is None else {name: getattr(item, source) for name, source in names.items()}
        return {**empty, **named, **dict.fromkeys(errors, code), **dict.fromkeys(texts, text)}

    return answer_item


def _names(asked: Entity | None, answer: Entity) -> dict[str, str]:
    """The fields of a response's structure that name it, and those of the request's where these are from."""
    of_request = {field.name for field in untagged_fields(asked)} if asked is not None else set()
    sources = {field.name: [name for name in _NAMES.get(field.name, ()) if name in of_request] for field in untagged_fields(answer)}
    return {name: found[0] for name, found in sources.items() if found}


def _empty(entity: Entity) -> Values:
    """The fields of a structure without content, as `write_in_pieces` takes them."""
    return {field.name: _empty_value(field) for field in untagged_fields(entity)}


def _empty_value(field: "dataclasses.Field[Any]") -> Any:
    if is_array(field):
        return ()
    kind = kind_of(field)
    if kind == "datetime_i64":
        return -1 if is_nullable(field) else 0
    if is_nullable(field):
        return None
    if kind.startswith("int") and field.default is not dataclasses.MISSING:
        return field.default
    if kind in ("string", "bytes", "bool"):
        return {"string": "", "bytes": b"", "bool": False}[kind]
    return -1 if field.name in _UNKNOWN else 0
