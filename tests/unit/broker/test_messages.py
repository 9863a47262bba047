"""Messages at the door: every version of every API that we serve can be loaded, read and answered."""

import contextlib

import pytest
from kio.static.constants import EntityType

from ottla.broker import messages
from ottla.broker.dispatch import SERVED_APIS
from ottla.core.errors import PeerError

PAIRS = [(api.key, version) for api in SERVED_APIS.values() for version in api.versions if version not in api.refused]


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_every_served_version_is_known_to_kio(key: int, version: int) -> None:
    assert version in messages.versions_of(key)
    assert messages.entity_of(key, version, EntityType.request).__version__ == version
    messages.response_encoder(key, version)


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_an_empty_or_cut_body_is_the_peers_fault(key: int, version: int) -> None:
    decode = messages.request_decoder(key, version)
    for body in (b"", b"\xff", b"\x00\x01", b"\xff" * 40):
        with contextlib.suppress(PeerError):
            decode(body, 0)


def test_a_field_that_a_version_needs_must_be_given() -> None:
    with pytest.raises(AssertionError, match="no value for error_code"):
        messages.response_encoder(12, 0)({})


def test_a_field_that_a_version_lacks_is_left_out() -> None:
    values = {"error_code": 27, "throttle_time": 1500}
    assert messages.response_encoder(12, 0)(values) == (27).to_bytes(2, "big")
    assert messages.response_encoder(12, 1)(values) == (1500).to_bytes(4, "big") + (27).to_bytes(2, "big")


def test_a_request_is_read_from_writable_memory_as_the_socket_gives_it() -> None:
    heartbeat = messages.request_decoder(12, 0)(memoryview(bytearray(b"\0\1g\0\0\0\7\0\1m")), 0)
    assert (heartbeat.group_id, heartbeat.generation_id, heartbeat.member_id) == ("g", 7, "m")
