"""A JoinGroup from its bytes; kio's reader agrees (tests/properties/test_group_requests.py)."""

import pytest

from ottla.broker.protocol.requests.join_group import JoinGroupRequest, read_join_group
from ottla.core.errors import PeerError

OLD = b"\0\1g" + b"\0\0\0\x0a" + b"\0\1m" + b"\0\1c" + b"\0\0\0\1" + b"\0\1r" + b"\0\0\0\2ab"
NEW = b"\2g" + b"\0\0\0\x0a" + b"\0\0\0\x14" + b"\2m" + b"\0" + b"\2c" + b"\2" + b"\2r" + b"\3ab" + b"\0" + b"\4why" + b"\0"


def test_an_old_one_uses_the_session_timeout_for_both() -> None:
    assert read_join_group(OLD, 0, 0) == JoinGroupRequest("g", 10, 10, "m", None, "c", (("r", b"ab"),), None)


def test_a_flexible_one_with_a_reason() -> None:
    assert read_join_group(NEW, 0, 9) == JoinGroupRequest("g", 10, 20, "m", None, "c", (("r", b"ab"),), "why")


def test_half_a_one_is_refused() -> None:
    for end in range(len(NEW)):
        with pytest.raises(PeerError):
            read_join_group(NEW[:end], 0, 9)
