"""Heartbeat: alive, behind, or unknown."""

import pytest

from ottla.broker.apis import heartbeat
from ottla.broker.apis.heartbeat import HeartbeatRequest, read_heartbeat
from ottla.groups.commands import HeartbeatResult
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(5))
def test_every_version(member, version: int) -> None:
    alive = member()
    alive.join()
    alive.sync(assignments={alive.member_id: b""})
    assert alive.heartbeat(version) == 0
    assert alive.heartbeat(version, generation_id=0) == 22
    assert alive.heartbeat(version, member_id="unknown") == 25
    assert alive.heartbeat(version, group_id="no such group") == 25
    assert alive.heartbeat(version, group_id="") == 24


ASKED = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_known_member_is_answered_without_a_command(one_api, groups_double, error: ErrorCode) -> None:
    groups_double.fast_answer = error
    assert one_api(heartbeat.API, groups=groups_double).ask(ApiKey.HEARTBEAT, 4, **ASKED).error_code == error
    assert groups_double.commands == []


def test_the_coordinator_answers_the_others(one_api, groups_double) -> None:
    api = one_api(heartbeat.API, groups=groups_double)
    answer = api.start(ApiKey.HEARTBEAT, 4, **ASKED)
    (command,) = groups_double.commands
    assert (command.group_id, command.generation, command.member_id, command.instance_id) == ("g", 3, "m", None)
    assert not answer.done()
    groups_double.answer(HeartbeatResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
    assert api.finish(ApiKey.HEARTBEAT, 4, answer).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# A Heartbeat from its bytes; kio's reader agrees (tests/properties/test_group_requests.py).


def test_a_plain_one_and_a_flexible_one() -> None:
    assert read_heartbeat(b"\0\1g\0\0\0\7\0\1m", 0, 0) == HeartbeatRequest("g", 7, "m", None)
    assert read_heartbeat(b"\0\1g\0\0\0\7\0\1m\0\1i", 0, 3) == HeartbeatRequest("g", 7, "m", "i")
    assert read_heartbeat(b"\2g\0\0\0\7\2m\0\0", 0, 4) == HeartbeatRequest("g", 7, "m", None)


def test_half_a_one_is_refused() -> None:
    with pytest.raises(PeerError):
        read_heartbeat(b"\2g\0\0\0\7\2m\0", 0, 4)
