"""JoinGroup: the quirks of its versions."""

import pytest

from ottla.broker.apis.join_group import JoinGroupRequest, read_join_group
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(member, version: int) -> None:
    joiner = member(join_version=version)
    answer = joiner.join()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id == answer.members[0].member_id
    assert answer.member_id.startswith("test-")
    if version >= 7:
        assert answer.protocol_type == "consumer"


@pytest.mark.parametrize("version", range(4, 10))
def test_a_new_member_learns_its_id_first_from_version_4_on(api, member, version: int) -> None:
    answer = api.ask(ApiKey.JOIN_GROUP, version, **member().join_fields())
    assert (answer.error_code, answer.generation_id) == (79, -1)
    assert answer.member_id
    assert answer.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize(("version", "expected"), [(0, 10000), (1, 33000)])
def test_version_0_has_no_rebalance_timeout_and_takes_the_sessions(api, member, version: int, expected: int) -> None:
    joiner = member(join_version=version)
    joiner.join(rebalance_timeout=33000)
    (loop,) = api.groups.coordinators.all()
    joiner.sync(version=3)
    (group,) = loop.coordinator.snapshot().groups
    assert group.members[0].rebalance_timeout_ms == expected


def test_a_static_member_gets_an_id_with_its_instance_in_it(member) -> None:
    assert member(instance_id="i1").join().member_id.startswith("i1-")


def test_a_second_member_waits_for_the_first(api, member) -> None:
    first, second = member(), member()
    first.join()
    first.sync(assignments={first.member_id: b"\1"})
    waiting = second.start_join()
    assert not waiting.done()
    assert first.heartbeat() == 27
    again = first.start_join()
    assert (first.joined(again).generation_id, second.joined(waiting).generation_id) == (2, 2)


def test_a_session_timeout_outside_the_brokers_bounds_is_refused(make_api, member, caplog: pytest.LogCaptureFixture) -> None:
    api = make_api({"group.min.session.timeout.ms": "1000", "group.max.session.timeout.ms": "2000"})
    for session_timeout, error in ((999, 26), (2001, 26), (1000, 79), (2000, 79)):
        for _ in range(2):
            answer = api.ask(ApiKey.JOIN_GROUP, 5, **member(of=api).join_fields(session_timeout=session_timeout))
            assert answer.error_code == error
    lines = [line for line in caplog.messages if "session timeout" in line]
    assert ["asks for a session timeout of 999 ms" in lines[0], "asks for a session timeout of 2001 ms" in lines[1]] == [True, True]
    assert len(lines) == 2, "a client that joins again and again is named once"


# A JoinGroup from its bytes; kio's reader agrees (tests/properties/test_group_requests.py).

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
