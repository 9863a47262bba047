"""Large requests: decoded in pieces to what kio reads at once, and refused where their elements are too many."""

import contextlib
import io
import itertools
import struct
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from ottla.broker.api_registry import APIS
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.bounds import PIECE as CHECKED
from ottla.protocol.wire.messages import request_class
from ottla.protocol.wire.request_reading import ELEMENTS_MAX, PIECE, read_in_pieces

NOISES = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x80", b""]
PAIRS = [(api.key, version) for api in APIS.values() for version in api.versions if not api.decodes_itself]


def run(reading: Generator[None, None, Any]) -> tuple[Any, int]:
    """What a generator ends with, and its pieces."""
    pieces = 1
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value, pieces
        pieces += 1


@pytest.mark.parametrize(("key", "version"), PAIRS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_it_reads_what_kio_reads(messages: Any, key: int, version: int, data: st.DataObject) -> None:
    entity = request_class(key, version)
    message = data.draw(messages(entity))
    out = io.BytesIO()
    try:
        entity_writer(entity)(out, message)
    except (ValueError, OverflowError):
        return  # kio's own strategies know values that its writer does not take
    written = b"head" + out.getvalue()
    with contextlib.suppress(ValueError):  # durations beyond kio's range: docs/skipped.md
        assert run(read_in_pieces(key, version, memoryview(written), 4))[0] == entity_reader(entity)(written, 4)[0]


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_huge_lengths_and_short_bytes_are_the_peers_fault(key: int, version: int) -> None:
    for noise, prefix in itertools.product(NOISES, range(12)):
        with contextlib.suppress(PeerError):
            run(read_in_pieces(key, version, memoryview(b"\0\1g" * (prefix // 3) + bytes(prefix % 3) + noise), 0))


def names(count: int) -> memoryview:
    """A body of DescribeGroups v0."""
    return memoryview(struct.pack(">i", count) + b"\0\1g" * count)


def test_a_large_request_takes_as_many_pieces_as_it_has_elements() -> None:
    message, pieces = run(read_in_pieces(15, 0, names(10 * PIECE), 0))
    assert len(message.groups) == 10 * PIECE
    assert pieces == 1 + 10 * PIECE // CHECKED + 10


def test_structures_within_structures_are_pieces_too() -> None:
    topic = b"\0\1t" + struct.pack(">i", 1) + struct.pack(">i", 7)
    body = memoryview(b"\0\1g" + struct.pack(">i", 4 * PIECE) + topic * (4 * PIECE))
    message, pieces = run(read_in_pieces(9, 1, body, 0))
    assert len(message.topics) == 4 * PIECE
    assert message.topics[-1].partition_indexes == (7,)
    assert pieces == 1 + 4 * PIECE // CHECKED + 4


def test_too_many_elements_are_refused_before_they_are_decoded() -> None:
    assert len(run(read_in_pieces(15, 0, names(ELEMENTS_MAX), 0))[0].groups) == ELEMENTS_MAX
    reading = read_in_pieces(15, 0, names(ELEMENTS_MAX + 1), 0)
    with pytest.raises(PeerError, match=f"more than {ELEMENTS_MAX} elements in one request"):
        next(reading)


def test_elements_of_all_arrays_count() -> None:
    number = struct.pack(">i", 7)
    topic = b"\0\1t" + struct.pack(">i", ELEMENTS_MAX // 4) + number * (ELEMENTS_MAX // 4)
    with pytest.raises(PeerError, match="elements"):
        run(read_in_pieces(9, 1, memoryview(b"\0\1g" + struct.pack(">i", 5) + topic * 5), 0))


def test_null_arrays_are_read_where_kafka_allows_them() -> None:
    assert run(read_in_pieces(3, 1, memoryview(b"\xff\xff\xff\xff"), 0))[0].topics is None
    with pytest.raises(PeerError, match="-1 items"):
        run(read_in_pieces(42, 0, memoryview(b"\xff\xff\xff\xff"), 0))
