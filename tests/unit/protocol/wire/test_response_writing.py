"""Large answers: kio's bytes, in pieces, from values that are made when they are asked for, and bounded."""

import dataclasses
import datetime
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.api_registry import APIS
from ottla.protocol.errors import PeerError
from ottla.protocol.wire import response_writing
from ottla.protocol.wire.messages import response_class, response_encoder
from ottla.protocol.wire.response_writing import PIECE, SHARED_BYTES_MIN, write_in_pieces

NOT_IN_PIECES = (0, 1, 18, 68)
# Produce, Fetch and ApiVersions have encoders of their own; ConsumerGroupHeartbeat answers with a refusal alone.
PAIRS = [(api.key, version) for api in APIS.values() for version in api.versions if api.key not in NOT_IN_PIECES]


def values_of(message: Any) -> Any:
    """kio's object as a handler gives it."""
    if dataclasses.is_dataclass(message):
        fields = [field for field in dataclasses.fields(message) if "tag" not in field.metadata]
        return {field.name: values_of(getattr(message, field.name)) for field in fields}
    if isinstance(message, tuple):
        return [values_of(item) for item in message]
    if isinstance(message, datetime.datetime):
        message = message - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return message // datetime.timedelta(milliseconds=1) if isinstance(message, datetime.timedelta) else message


def lazy(values: Any) -> Any:
    """The same with iterators for arrays of structures, which now and then have no item."""
    if isinstance(values, dict):
        return {name: lazy(value) for name, value in values.items()}
    if isinstance(values, list) and values and isinstance(values[0], dict):
        return (item for value in values for item in (None, lazy(value)))
    return values


def run(writing: Generator[None, None, Any]) -> tuple[bytes, int]:
    """The bytes, and in how many pieces."""
    pieces = 1
    while True:
        try:
            next(writing)
        except StopIteration as end:
            return b"".join(end.value), pieces
        pieces += 1


@pytest.mark.parametrize(("key", "version"), PAIRS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_it_writes_what_kio_writes(messages: Any, key: int, version: int, data: st.DataObject) -> None:
    values = values_of(data.draw(messages(response_class(key, version))))
    try:
        expected = response_encoder(key, version)(values)
    except (ValueError, OverflowError):
        return  # kio's own strategies know values that its writer does not take
    assert run(write_in_pieces(key, version, values))[0] == expected
    assert run(write_in_pieces(key, version, lazy(values)))[0] == expected


def groups(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"group_id": f"group-{number}", "protocol_type": "consumer", "group_state": "Stable", "group_type": "classic"}


@pytest.mark.parametrize("version", range(6))
def test_as_many_pieces_as_there_are_elements(version: int) -> None:
    values = {"throttle_time": 0, "error_code": 0, "groups": groups(10 * PIECE)}
    data, pieces = run(write_in_pieces(16, version, values))
    assert pieces == 11
    assert data == response_encoder(16, version)({**values, "groups": list(groups(10 * PIECE))})


def test_an_item_is_made_when_it_is_written() -> None:
    made = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal made
        for each in groups(10 * PIECE):
            made += 1
            yield each

    writing = write_in_pieces(16, 0, {"throttle_time": 0, "error_code": 0, "groups": counted()})
    next(writing)
    assert made == PIECE


def described(metadata: bytes) -> dict[str, Any]:
    member = {"member_id": "m", "client_id": "c", "client_host": "/", "member_metadata": metadata, "member_assignment": b""}
    group = {"error_code": 0, "group_id": "g", "group_state": "Stable", "protocol_type": "", "protocol_data": "", "members": [member] * 3}
    return {"throttle_time": 0, "groups": [group]}


def test_long_bytes_are_not_copied() -> None:
    metadata = b"m" * SHARED_BYTES_MIN
    with pytest.raises(StopIteration) as end:
        next(write_in_pieces(15, 0, described(metadata)))
    assert sum(part is metadata for part in end.value.value) == 3
    assert b"".join(end.value.value) == response_encoder(15, 0)(described(metadata))


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_writing, "RESPONSE_BYTES_MAX", 1000)
    run(write_in_pieces(15, 0, described(b"m" * SHARED_BYTES_MIN)))
    with pytest.raises(PeerError, match="a response of more than 1000 bytes: ask for less"):
        run(write_in_pieces(15, 0, described(b"m" * 500)))
    writing = write_in_pieces(16, 0, {"throttle_time": 0, "error_code": 0, "groups": groups(10 * PIECE)})
    with pytest.raises(PeerError):
        next(writing)  # as soon as it is too large


def test_a_null_where_none_is_allowed_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="group_id"):
        run(write_in_pieces(16, 0, {"error_code": 0, "groups": [{"group_id": None, "protocol_type": ""}]}))
