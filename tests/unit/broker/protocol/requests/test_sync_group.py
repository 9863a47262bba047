"""A SyncGroup from its bytes; kio's reader agrees (tests/properties/test_group_requests.py)."""

import pytest

from ottla.broker.protocol.requests.sync_group import SyncGroupRequest, read_sync_group
from ottla.core.errors import PeerError

OLD = b"\0\1g" + b"\0\0\0\7" + b"\0\1m" + b"\0\0\0\1" + b"\0\1n" + b"\0\0\0\2ab"
NEW = b"\2g" + b"\0\0\0\7" + b"\2m" + b"\0" + b"\2c" + b"\2r" + b"\2" + b"\2n" + b"\3ab" + b"\0" + b"\0"


def test_an_old_one_and_a_flexible_one() -> None:
    assert read_sync_group(OLD, 0, 0) == SyncGroupRequest("g", 7, "m", None, None, None, (("n", b"ab"),))
    assert read_sync_group(NEW, 0, 5) == SyncGroupRequest("g", 7, "m", None, "c", "r", (("n", b"ab"),))


def test_half_a_one_is_refused() -> None:
    for end in range(len(NEW)):
        with pytest.raises(PeerError):
            read_sync_group(NEW[:end], 0, 5)
