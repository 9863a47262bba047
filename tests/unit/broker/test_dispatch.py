"""From a frame to its handler: what is answered, and what closes the connection."""

import pytest

from ottla.broker.dispatch import read_request, served_apis
from ottla.core.errors import PeerError


def frame(key: int, version: int, body: bytes = b"") -> memoryview:
    return memoryview(bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff" + body))


@pytest.mark.parametrize("key", [-1 & 0xFFFF, 4, 68, 9999])
def test_an_api_that_we_do_not_serve_closes_the_connection(key: int) -> None:
    with pytest.raises(PeerError):
        read_request(frame(key, 0), "/")


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (1, 3), (12, 5), (12, -1)])
def test_a_version_that_we_do_not_serve_closes_the_connection(key: int, version: int) -> None:
    with pytest.raises(PeerError, match="version"):
        read_request(frame(key, version), "/")


def test_api_versions_is_answered_in_any_version() -> None:
    api, request = read_request(frame(18, 77), "/127.0.0.1")
    assert (api.key, request.version, request.message) == (18, 77, None)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x0c\0\0", b"\0\x0c\0\0\0\0\0\1\0\x09abc"])
def test_a_cut_header_closes_the_connection(data: bytes) -> None:
    with pytest.raises(PeerError):
        read_request(memoryview(data), "/")


def test_every_api_file_is_served_under_a_key_of_its_own() -> None:
    assert sorted(served_apis()) == [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 35, 37, 42, 44, 47, 60]
