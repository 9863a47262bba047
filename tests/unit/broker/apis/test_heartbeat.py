"""Heartbeat: alive, behind, or unknown."""

import pytest


@pytest.mark.parametrize("version", range(5))
def test_every_version(member, version: int) -> None:
    alive = member()
    alive.join()
    alive.sync(assignments={alive.member_id: b""})
    assert alive.heartbeat(version) == 0
    assert alive.heartbeat(version, generation_id=0) == 22
    assert alive.heartbeat(version, member_id="nobody") == 25
    assert alive.heartbeat(version, group_id="no such group") == 25
    assert alive.heartbeat(version, group_id="") == 24
