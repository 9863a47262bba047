"""SyncGroup: the plan comes back in parts, in every version."""

import pytest

from ottla.core.errors import ErrorCode


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
