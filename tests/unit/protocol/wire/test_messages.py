"""Messages: every version of every API that we serve can be loaded, read and answered."""

import contextlib

import pytest

from ottla.broker.api_registry import APIS
from ottla.protocol.errors import PeerError
from ottla.protocol.wire import messages
from ottla.protocol.wire.api_keys import ApiKey

PAIRS = [(api.key, version) for api in APIS.values() for version in api.versions if version not in api.refused]


@pytest.mark.parametrize(("key", "version"), PAIRS)
def test_every_served_version_is_known_to_kio(key: int, version: int) -> None:
    assert version in messages.versions_of(key)
    assert messages.request_class(key, version).__version__ == version
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


def test_a_message_is_read_as_it_was_encoded() -> None:
    message = messages.fitter(messages.response_class(ApiKey.FIND_COORDINATOR, 4), True)({"coordinators": [{"key": "g", "node_id": 3}]})
    assert messages.decoder(type(message))(b"head" + messages.encode(message), 4) == message


def test_what_a_lenient_message_lacks_is_nothing() -> None:
    join = messages.fitter(messages.request_class(ApiKey.JOIN_GROUP, 9), True)({"protocols": [{"name": "range"}]})
    assert (join.group_id, join.group_instance_id, join.session_timeout.total_seconds()) == ("", None, 0)
    assert [(each.name, each.metadata) for each in join.protocols] == [("range", b"")]


def test_the_error_of_a_message_that_cannot_be_read_names_it() -> None:
    with pytest.raises(PeerError, match="HeartbeatRequest v4 cannot be read"):
        messages.request_decoder(ApiKey.HEARTBEAT, 4)(b"", 0)
