"""Many members in one group, many groups in one broker: nothing about a member may grow with the number of the others' groups.

Small always; the sizes that are promised where OTTLA_LARGE is set (`OTTLA_LARGE=1 make test ARGS=tests/clients/test_scale.py`).
"""

import os
import resource
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from tests.support.clients.group_driver import GroupDriver
from tests.support.clients.group_frames import heartbeat_frame

IS_LARGE = "OTTLA_LARGE" in os.environ
MEMBERS = 5_000 if IS_LARGE else 500
GROUPS = 20_000 if IS_LARGE else 1_000
CONNECTIONS = 200


@pytest.fixture
def asking(ottla_broker: Any) -> Iterator[RawClient]:
    with RawClient(ottla_broker.bootstrap_servers, timeout_seconds=60) as client:
        yield client


def test_many_members_in_one_group(ottla_broker: Any, asking: RawClient) -> None:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if descriptors < 2 * MEMBERS + 100:
        pytest.skip(f"needs {2 * MEMBERS + 100} file descriptors for both ends of the connections, may have {descriptors} (ulimit -n)")
    with GroupDriver(ottla_broker.bootstrap_servers, MEMBERS, heartbeat_ms=500) as driver:
        driver.form(["one"] * MEMBERS)
        generation = driver.connections[0].generation
        driver.rejoin()
        assert {each.generation for each in driver.connections} == {generation + 1}, "all of them in one rebalance"
        (group,) = asking.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["one"]).groups
        assert group.group_state == "Stable"
        assert {each.member_id.encode() for each in group.members} == {each.member_id for each in driver.connections}
        frames = [[heartbeat_frame(b"one", each.generation, each.member_id)] for each in driver.connections]
        assert driver.stream(frames, 1, 0.2).per_second > 0


def test_many_groups_in_one_broker(ottla_broker: Any, asking: RawClient) -> None:
    with GroupDriver(ottla_broker.bootstrap_servers, CONNECTIONS) as driver:
        for first in range(0, GROUPS, CONNECTIONS):
            driver.form([f"group-{number:05}" for number in range(first, first + CONNECTIONS)])
        listed = asking.call(ApiKey.LIST_GROUPS, 4, states_filter=["Stable"]).groups
        assert {each.group_id for each in listed} == {f"group-{number:05}" for number in range(GROUPS)}
        driver.rejoin()  # the last 200 of them
        assert {each.generation for each in driver.connections} == {2}
        described = asking.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["group-00000", f"group-{GROUPS - 1:05}"]).groups
        assert [(each.group_state, len(each.members)) for each in described] == [("Stable", 1)] * 2
