"""DescribeGroups: what people look at when a group will not settle."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(7))
def test_every_version_describes(api, member, version: int) -> None:
    one = member(instance_id="i1")
    one.join()
    one.sync(assignments={one.member_id: b"plan"})
    known, unknown = api.ask(ApiKey.DESCRIBE_GROUPS, version, groups=["g", "unknown"], include_authorized_operations=True).groups
    assert (known.error_code, known.group_state, known.protocol_type, known.protocol_data) == (0, "Stable", "consumer", "range")
    (shown,) = known.members
    assert (shown.client_id, shown.client_host, shown.member_assignment) == ("test", "/127.0.0.1", b"plan")
    assert (unknown.error_code, unknown.group_state) == ((69, "Dead") if version >= 6 else (0, "Dead"))
    if version >= 3:
        assert known.authorized_operations == 3400
    if version >= 4:
        assert shown.group_instance_id == "i1"
