"""SyncGroup: the plan comes back in parts, in every version."""

import pytest

from ottla.broker.apis.sync_group import SyncGroupRequest, read_sync_group
from ottla.protocol.errors import ErrorCode, PeerError


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_the_leader_its_part(member, version: int) -> None:
    leader = member()
    leader.join()
    answer = leader.sync(version, {leader.member_id: b"plan", "another": b"not mine"})
    assert (answer.error_code, answer.assignment) == (0, b"plan")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_version_5_must_name_the_protocol(member, missing: str) -> None:
    leader = member()
    leader.join()
    assert leader.sync(5, {}, **{missing: None}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert leader.sync(5, {}, **{missing: "other"}).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert leader.sync(4, {}, **{missing: "other"}).error_code == ErrorCode.NONE


# A SyncGroup from its bytes; kio's reader agrees (tests/properties/test_group_requests.py).

OLD = b"\0\1g" + b"\0\0\0\7" + b"\0\1m" + b"\0\0\0\1" + b"\0\1n" + b"\0\0\0\2ab"
NEW = b"\2g" + b"\0\0\0\7" + b"\2m" + b"\0" + b"\2c" + b"\2r" + b"\2" + b"\2n" + b"\3ab" + b"\0" + b"\0"


def test_an_old_one_and_a_flexible_one() -> None:
    assert read_sync_group(OLD, 0, 0) == SyncGroupRequest("g", 7, "m", None, None, None, (("n", b"ab"),))
    assert read_sync_group(NEW, 0, 5) == SyncGroupRequest("g", 7, "m", None, "c", "r", (("n", b"ab"),))


def test_half_a_one_is_refused() -> None:
    for end in range(len(NEW)):
        with pytest.raises(PeerError):
            read_sync_group(NEW[:end], 0, 5)
