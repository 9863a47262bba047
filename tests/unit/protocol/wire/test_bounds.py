"""The walk before kio: it ends where kio ends, and no length that the bytes cannot hold gets past it."""

import contextlib
import dataclasses
import io
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from ottla.broker.api_registry import APIS
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.bounds import (
    PIECE,
    Entity,
    check_in_pieces,
    fixed_bytes,
    has_arrays,
    is_array,
    is_nullable,
    kind_of,
    nested_entity,
    untagged_fields,
    walker,
)
from ottla.protocol.wire.messages import request_class, response_class

NOISES = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x80", b""]
PAIRS = [(api.key, version) for api in APIS.values() for version in api.versions if not api.decodes_itself]


@pytest.mark.parametrize(("key", "version"), PAIRS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_walk_ends_where_kio_ends(messages: Any, key: int, version: int, data: st.DataObject) -> None:
    entity = request_class(key, version)
    message = data.draw(messages(entity))
    out = io.BytesIO()
    try:
        entity_writer(entity)(out, message)
    except (ValueError, OverflowError):
        return  # kio's own strategies know values that its writer does not take
    written = out.getvalue()
    assert walker(entity)(written + b"more", 0, len(written)) == len(written)
    with contextlib.suppress(ValueError):  # durations beyond kio's range: docs/skipped.md
        assert entity_reader(entity)(written, 0)[1] == len(written)


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_huge_lengths_and_short_bytes_are_the_peers_fault(key: int, version: int) -> None:
    walk = walker(request_class(key, version))
    for noise, prefix in itertools.product(NOISES, range(12)):
        data = b"\0\1g" * (prefix // 3) + bytes(prefix % 3) + noise
        with contextlib.suppress(PeerError, IndexError):
            walk(data, 0, len(data))


@pytest.mark.parametrize(("version", "body"), [(0, b"\xff\xff"), (4, b"\0")])
def test_null_where_kafka_allows_none_is_the_peers_fault(version: int, body: bytes) -> None:
    with pytest.raises(PeerError, match="length -1"):
        walker(request_class(12, version))(body + bytes(20), 0, len(body) + 20)


def test_a_null_array_only_where_it_means_something() -> None:
    every_topic = walker(request_class(3, 1))
    assert every_topic(b"\xff\xff\xff\xff", 0, 4) == 4
    with pytest.raises(PeerError, match="-1 items"):
        walker(request_class(42, 0))(b"\xff\xff\xff\xff", 0, 4)


def test_a_section_of_many_tagged_fields_is_refused() -> None:
    walk = walker(request_class(12, 4))
    body = b"\2g\0\0\0\7\2m\0"
    few, many = b"\x64" + b"\x07\0" * 100, b"\x65" + b"\x07\0" * 101
    assert walk(body + few, 0, len(body + few)) == len(body + few)
    with pytest.raises(PeerError, match="101 tagged fields"):
        walk(body + many, 0, len(body + many))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_structure_that_may_be_null_is_behind_a_byte(messages: Any, data: st.DataObject) -> None:
    entity = response_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    out = io.BytesIO()
    entity_writer(entity)(out, data.draw(messages(entity)))
    assert walker(entity)(out.getvalue(), 0, out.tell()) == out.tell()


def strings(count: int) -> bytes:
    """A body of DescribeGroups v0."""
    return count.to_bytes(4, "big") + b"\0\1g" * count


def test_a_long_message_is_checked_in_pieces() -> None:
    entity = request_class(ApiKey.DESCRIBE_GROUPS, 0)
    assert len(list(check_in_pieces(entity, strings(3 * PIECE), 0, 3 * PIECE))) == 3
    with pytest.raises(PeerError, match=f"more than {3 * PIECE} elements"):
        list(check_in_pieces(entity, strings(3 * PIECE + 1), 0, 3 * PIECE))


def test_short_arrays_pause_together() -> None:
    partition = bytes(4 + 8)  # its number, and a timestamp
    topic = b"\0\1t" + (1).to_bytes(4, "big") + partition
    body = bytes(4 + 1) + (2 * PIECE).to_bytes(4, "big") + topic * (2 * PIECE)
    entity = request_class(ApiKey.LIST_OFFSETS, 2)
    assert walker(entity)(body, 0, len(body)) == len(body)
    assert len(list(check_in_pieces(entity, body, 0, 4 * PIECE))) == 4


def in_pieces(entity: Entity, data: bytes) -> int:
    checking = check_in_pieces(entity, data, 0, 1_000_000)
    while True:
        try:
            next(checking)
        except StopIteration as end:
            return int(end.value)


@pytest.mark.parametrize(("key", "version"), PAIRS)
@settings(max_examples=15, deadline=None)
@given(data=st.data(), noise=st.binary(max_size=4), at=st.floats(0, 1))
def test_both_walks_end_at_the_same_place_or_refuse(
    messages: Any, key: int, version: int, data: st.DataObject, noise: bytes, at: float
) -> None:
    entity = request_class(key, version)
    out = io.BytesIO()
    try:
        entity_writer(entity)(out, data.draw(messages(entity)))
    except (ValueError, OverflowError):
        return
    written = bytearray(out.getvalue())
    place = int(at * len(written))
    written[place : place + len(noise)] = noise
    try:
        expected = walker(entity)(bytes(written), 0, len(written))
    except (PeerError, IndexError):
        with pytest.raises((PeerError, IndexError)):
            in_pieces(entity, bytes(written))
    else:
        assert in_pieces(entity, bytes(written)) == expected


def field(entity: Entity, name: str) -> "dataclasses.Field[object]":
    return next(each for each in dataclasses.fields(entity) if each.name == name)


def test_fields() -> None:
    join = request_class(ApiKey.JOIN_GROUP, 9)
    protocols, reason, timeout = (field(join, name) for name in ("protocols", "reason", "session_timeout"))
    assert (is_array(protocols), is_array(reason), is_nullable(reason), is_nullable(protocols)) == (True, False, True, False)
    assert (fixed_bytes(timeout), fixed_bytes(reason), fixed_bytes(protocols), kind_of(reason)) == (4, 0, 0, "string")
    nested = nested_entity(protocols)
    assert nested is not None
    assert [each.name for each in dataclasses.fields(nested)] == ["name", "metadata"]
    assert nested_entity(reason) is None


def test_tagged_fields_are_not_always_there() -> None:
    fetch = request_class(ApiKey.FETCH, 15)
    assert "replica_state" in {each.name for each in dataclasses.fields(fetch)}
    assert "replica_state" not in {each.name for each in untagged_fields(fetch)}


def test_arrays_within_structures_count() -> None:
    assert not has_arrays(request_class(ApiKey.HEARTBEAT, 4))
    assert has_arrays(request_class(ApiKey.OFFSET_FETCH, 1))
    groups = field(request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), "topic_partitions")
    assert has_arrays(nested_entity(groups))
    assert has_arrays(response_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)), "in the assignment"
