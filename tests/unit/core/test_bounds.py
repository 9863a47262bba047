"""The walk before kio: it ends where kio ends, and no length that the bytes cannot hold gets past it."""

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.broker.dispatch import SERVED_APIS
from ottla.broker.messages import entity_of
from ottla.core.bounds import walker
from ottla.core.errors import PeerError

PAIRS = [(api.key, version) for api in SERVED_APIS.values() for version in api.versions if not api.decodes_itself]


@pytest.mark.parametrize(("key", "version"), PAIRS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_walk_ends_where_kio_ends(key: int, version: int, data: st.DataObject) -> None:
    entity = entity_of(key, version, EntityType.request)
    message = data.draw(st.from_type(entity))
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
@pytest.mark.parametrize("noise", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x80", b""])
def test_huge_lengths_and_short_bytes_are_the_peers_fault(key: int, version: int, noise: bytes) -> None:
    walk = walker(entity_of(key, version, EntityType.request))
    for prefix in range(12):
        data = b"\0\1g" * (prefix // 3) + bytes(prefix % 3) + noise
        with contextlib.suppress(PeerError, IndexError):
            walk(data, 0, len(data))


@pytest.mark.parametrize(("version", "body"), [(0, b"\xff\xff"), (4, b"\0")])
def test_null_where_kafka_allows_none_is_the_peers_fault(version: int, body: bytes) -> None:
    with pytest.raises(PeerError, match="length -1"):
        walker(entity_of(12, version, EntityType.request))(body + bytes(20), 0, len(body) + 20)


def test_a_null_array_only_where_it_means_something() -> None:
    every_topic = walker(entity_of(3, 1, EntityType.request))
    assert every_topic(b"\xff\xff\xff\xff", 0, 4) == 4
    with pytest.raises(PeerError, match="-1 items"):
        walker(entity_of(42, 0, EntityType.request))(b"\xff\xff\xff\xff", 0, 4)


def test_a_section_of_many_tagged_fields_is_refused() -> None:
    walk = walker(entity_of(12, 4, EntityType.request))
    body = b"\2g\0\0\0\7\2m\0"
    few, many = b"\x64" + b"\x07\0" * 100, b"\x65" + b"\x07\0" * 101
    assert walk(body + few, 0, len(body + few)) == len(body + few)
    with pytest.raises(PeerError, match="101 tagged fields"):
        walk(body + many, 0, len(body + many))
