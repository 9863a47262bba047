"""What is answered to requests beyond the limits, for every API and version; `test_connection.py` sends such requests."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.api_registry import APIS
from ottla.broker.network.refusals import answer_of_items
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.bounds import Entity, has_arrays, is_array, kind_of, nested_entity, untagged_fields
from ottla.protocol.wire.messages import decoder, fitter, request_class, response_class
from ottla.protocol.wire.response_writing import write_in_pieces

CLOSED = {
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 1),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, 2),
    (ApiKey.DESCRIBE_LOG_DIRS, 1),
    (ApiKey.DESCRIBE_LOG_DIRS, 2),
    *((key, version) for key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS) for version in (1, 2, 3)),
    (ApiKey.ALTER_CLIENT_QUOTAS, 0),
    (ApiKey.ALTER_CLIENT_QUOTAS, 1),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0),
}
"""Listed in docs/skipped.md: what their responses name is not what their requests name, or is in two places there."""
NUMBER = 7
NAME = "named"


def versions_with_items() -> Iterator[tuple[ApiKey, int]]:
    """The versions whose responses have errors of single items alone."""
    for key, api in APIS.items():
        for version in api.versions:
            if version in api.refused or not has_arrays(request_class(key, version)):
                continue
            if all(field.name != "error_code" for field in untagged_fields(response_class(key, version))):
                yield ApiKey(key), version


def filled(entity: Entity) -> dict[str, Any]:
    """A structure with one item in each array, and the same name or number everywhere."""
    return {field.name: filled_field(field) for field in untagged_fields(entity)}


def filled_field(field: "dataclasses.Field[Any]") -> Any:
    nested, kind = nested_entity(field), kind_of(field)
    value = filled(nested) if nested is not None else NAME if kind == "string" else NUMBER if kind.startswith(("int", "uint")) else None
    return [value] if is_array(field) and value is not None else value


def answered(key: ApiKey, version: int) -> Any:
    message = fitter(request_class(key, version), is_lenient=True)(filled(request_class(key, version)))
    answer = answer_of_items(key, version)
    assert answer is not None
    writing = write_in_pieces(key, version, answer(message, ErrorCode.INVALID_REQUEST, "too much"))
    try:
        while True:
            next(writing)
    except StopIteration as end:
        return decoder(response_class(key, version))(b"".join(end.value), 0)


def leaves(message: Any) -> Iterator[tuple[str, Any]]:
    for field in untagged_fields(type(message)):
        value = getattr(message, field.name)
        if is_array(field) and nested_entity(field) is not None:
            for item in value or ():
                yield from leaves(item)
        elif not is_array(field):
            yield kind_of(field) if kind_of(field) == "error_code" else field.name, value


@pytest.mark.parametrize(("key", "version"), [each for each in versions_with_items() if each not in CLOSED])
def test_each_item_has_its_name_and_the_error(key: ApiKey, version: int) -> None:
    fields = list(leaves(answered(key, version)))
    assert [value for name, value in fields if name == "error_code"] == [ErrorCode.INVALID_REQUEST]
    named = {value for name, value in fields if name not in ("error_code", "throttle_time", "base_offset", "error_message")}
    assert named & {NAME, NUMBER}


def test_only_what_names_something_else_is_closed() -> None:
    assert {each for each in versions_with_items() if answer_of_items(*each) is None} == CLOSED
