"""From a frame to its handler: what is answered, and what closes the connection."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from ottla.broker.api_registry import APIS
from ottla.broker.protocol.api import ServedApi
from ottla.broker.protocol.request import Request
from ottla.core.errors import PeerError
from ottla.core.wire.api_keys import ApiKey


def frame(key: int, version: int, body: bytes = b"") -> memoryview:
    return memoryview(bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff" + body))


@pytest.fixture
def read_request(api) -> Callable[[memoryview, str], tuple[ServedApi, Request]]:
    """Reads requests of a broker that serves every API."""
    return api.dispatcher.read_request


@pytest.mark.parametrize("key", [-1 & 0xFFFF, 4, 68, 9999])
def test_an_api_that_we_do_not_serve_closes_the_connection(key: int, read_request) -> None:
    with pytest.raises(PeerError):
        read_request(frame(key, 0), "/")


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (1, 3), (12, 5), (12, -1)])
def test_a_version_that_we_do_not_serve_closes_the_connection(key: int, version: int, read_request) -> None:
    with pytest.raises(PeerError, match="version"):
        read_request(frame(key, version), "/")


def test_api_versions_is_answered_in_any_version(read_request) -> None:
    api, request = read_request(frame(ApiKey.API_VERSIONS, 77), "/127.0.0.1")
    assert (api.key, request.version, request.message) == (18, 77, None)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x0c\0\0", b"\0\x0c\0\0\0\0\0\1\0\x09abc"])
def test_a_cut_header_closes_the_connection(data: bytes, read_request) -> None:
    with pytest.raises(PeerError):
        read_request(memoryview(data), "/")


def test_every_api_file_is_served_under_a_key_of_its_own() -> None:
    assert sorted(APIS) == [
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        18,
        19,
        20,
        21,
        22,
        23,
        32,
        33,
        34,
        35,
        37,
        42,
        43,
        44,
        45,
        46,
        47,
        55,
        60,
        68,
        74,
        75,
    ]


def test_a_large_body_is_decoded_later_and_in_pieces(read_request) -> None:
    body = (3000).to_bytes(4, "big") + b"\0\3abc" * 3000
    data = frame(ApiKey.DESCRIBE_GROUPS, 0, body)
    _, request = read_request(data, "/")
    assert request.message is None
    assert request.reading is not None
    data[:] = bytes(len(data))  # the buffer is used again as soon as the frame is handled
    with pytest.raises(StopIteration) as end:
        read_to_the_end(request.reading)
    assert end.value.value.groups == ("abc",) * 3000


def read_to_the_end(reading: Generator[None, None, Any]) -> None:
    pieces = 0
    while True:
        next(reading)
        pieces += 1
        assert pieces < 20


def test_a_small_body_is_decoded_at_once(read_request) -> None:
    _, request = read_request(frame(ApiKey.DESCRIBE_GROUPS, 0, (2).to_bytes(4, "big") + b"\0\3abc" * 2), "/")
    assert request.reading is None
    assert request.message.groups == ("abc", "abc")


@pytest.mark.parametrize(("key", "version", "elements_max"), [(15, 0, 100_000), (20, 1, 10_000), (13, 3, 10_000), (47, 0, 10_000)])
def test_an_api_bounds_the_elements_of_a_request(key: int, version: int, elements_max: int, read_request) -> None:
    group = b"" if key in (15, 20) else b"\0\1g"
    for count, is_refused in ((elements_max, False), (elements_max + 1, True)):
        _, request = read_request(frame(key, version, group + count.to_bytes(4, "big") + bytes(8) * count), "/")
        assert request.reading is not None
        if is_refused:
            with pytest.raises(PeerError, match=f"more than {elements_max} elements"):
                next(request.reading)
        else:
            next(request.reading)
