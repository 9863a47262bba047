"""From a frame to its handler: what is answered, and what closes the connection."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from ottla.broker.api_registry import APIS
from ottla.broker.network.dispatch import KEPT_MAX, REPEATED_AFTER_S, MissingFeatures
from ottla.broker.network.request import Request, ServedApi, Session
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.sessions import client_session


def frame(key: int, version: int, body: bytes = b"") -> memoryview:
    return memoryview(bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(4) + b"\xff\xff" + body))


@pytest.fixture
def read_request(api) -> Callable[[memoryview, Session], tuple[ServedApi, Request]]:
    """Reads requests of a broker that serves every API."""
    return api.dispatcher.read_request


@pytest.mark.parametrize("key", [-1 & 0xFFFF, 4, 68, 9999])
def test_an_api_that_we_do_not_serve_closes_the_connection(key: int, read_request) -> None:
    with pytest.raises(PeerError):
        read_request(frame(key, 0), client_session())


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 14), (1, 3), (12, 5), (12, -1)])
def test_a_version_that_we_do_not_serve_closes_the_connection(key: int, version: int, read_request) -> None:
    with pytest.raises(PeerError, match="version"):
        read_request(frame(key, version), client_session())


def test_api_versions_is_answered_in_any_version(read_request) -> None:
    api, request = read_request(frame(ApiKey.API_VERSIONS, 77), client_session())
    assert (api.key, request.version, request.message) == (18, 77, None)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x0c\0\0", b"\0\x0c\0\0\0\0\0\1\0\x09abc"])
def test_a_cut_header_closes_the_connection(data: bytes, read_request) -> None:
    with pytest.raises(PeerError):
        read_request(memoryview(data), client_session())


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
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
        29,
        30,
        31,
        32,
        33,
        34,
        35,
        36,
        37,
        42,
        43,
        44,
        45,
        46,
        47,
        48,
        49,
        50,
        51,
        55,
        57,
        60,
        61,
        65,
        66,
        68,
        69,
        74,
        75,
    ]


def test_a_large_body_is_decoded_later_and_in_pieces(read_request) -> None:
    body = (3000).to_bytes(4, "big") + b"\0\3abc" * 3000
    data = frame(ApiKey.DESCRIBE_GROUPS, 0, body)
    _, request = read_request(data, client_session())
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
    _, request = read_request(frame(ApiKey.DESCRIBE_GROUPS, 0, (2).to_bytes(4, "big") + b"\0\3abc" * 2), client_session())
    assert request.reading is None
    assert request.message.groups == ("abc", "abc")


@pytest.mark.parametrize(("key", "version", "elements_max"), [(15, 0, 100_000), (20, 1, 10_000), (13, 3, 10_000), (47, 0, 10_000)])
def test_an_api_bounds_the_elements_of_a_request(key: int, version: int, elements_max: int, read_request) -> None:
    group = b"" if key in (15, 20) else b"\0\1g"
    for count, is_refused in ((elements_max, False), (elements_max + 1, True)):
        _, request = read_request(frame(key, version, group + count.to_bytes(4, "big") + bytes(8) * count), client_session())
        assert request.reading is not None
        if is_refused:
            with pytest.raises(PeerError, match=f"more than {elements_max} elements"):
                next(request.reading)
        else:
            next(request.reading)


# One line in the log for a client and a feature, however often it asks, and a bound for clients with ever new names.


class Clock:
    now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def missing(clock: Clock) -> MissingFeatures:
    return MissingFeatures(clock)


def test_a_client_is_named_once_for_each_feature(missing: MissingFeatures, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for client_id, feature in [("app", "this"), ("app", "this"), ("app", "that"), ("other", "this"), (None, "this"), ("app", "this")]:
        missing.report(feature, client_id, client_session())
    assert caplog.messages == [
        "client app of /127.0.0.1 asks for this",
        "client app of /127.0.0.1 asks for that",
        "client other of /127.0.0.1 asks for this",
        "client (no id) of /127.0.0.1 asks for this",
    ]
    clock.now_s += REPEATED_AFTER_S
    missing.report("this", "app", client_session())
    assert len(caplog.messages) == 5


def test_ever_new_names_fill_neither_memory_nor_the_log(missing: MissingFeatures, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2 * KEPT_MAX):
        missing.report("this", f"{number}-" + "x" * 30_000, client_session())
    assert len(caplog.messages) == KEPT_MAX
    assert max(map(len, caplog.messages)) < 200
    clock.now_s += REPEATED_AFTER_S
    missing.report("this", "app", client_session())
    assert caplog.messages[-1] == "client app of /127.0.0.1 asks for this"
    assert len(missing._logged_at_s) == 1


def test_a_name_that_would_forge_a_line(missing: MissingFeatures, caplog: pytest.LogCaptureFixture) -> None:
    missing.report("this", "app\nERROR \x1b[31m", client_session())
    assert caplog.messages == [r"client app\nERROR \x1b[31m of /127.0.0.1 asks for this"]
