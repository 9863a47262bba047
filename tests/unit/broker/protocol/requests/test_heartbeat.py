"""A Heartbeat from its bytes; kio's reader agrees (tests/properties/test_group_requests.py)."""

import pytest

from ottla.broker.protocol.requests.heartbeat import HeartbeatRequest, read_heartbeat
from ottla.core.errors import PeerError


def test_a_plain_one_and_a_flexible_one() -> None:
    assert read_heartbeat(b"\0\1g\0\0\0\7\0\1m", 0, 0) == HeartbeatRequest("g", 7, "m", None)
    assert read_heartbeat(b"\0\1g\0\0\0\7\0\1m\0\1i", 0, 3) == HeartbeatRequest("g", 7, "m", "i")
    assert read_heartbeat(b"\2g\0\0\0\7\2m\0\0", 0, 4) == HeartbeatRequest("g", 7, "m", None)


def test_half_a_one_is_refused() -> None:
    with pytest.raises(PeerError):
        read_heartbeat(b"\2g\0\0\0\7\2m\0", 0, 4)
