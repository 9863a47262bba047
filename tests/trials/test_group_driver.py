"""The group driver against a real broker: who is in which group afterwards, what it counts, and what ends a run."""

from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from tests.support.clients.group_driver import GroupDriver, UnexpectedAnswer
from tests.support.clients.group_frames import heartbeat_frame


def described(broker: Any, group: str) -> Any:
    with RawClient(broker.bootstrap_servers) as client:
        return client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups[0]


def test_groups_are_formed_and_join_again(ottla_broker: Any) -> None:
    with GroupDriver(ottla_broker.bootstrap_servers, 30, heartbeat_ms=20) as driver:
        driver.wait_for_coordinator("a")
        spent = driver.form(["a"] * 20 + ["b"] * 10)
        assert spent.seconds > 0
        assert spent.cpu_seconds > 0
        first = {group: described(ottla_broker, group) for group in ("a", "b")}
        assert [(each.group_state, len(each.members)) for each in first.values()] == [("Stable", 20), ("Stable", 10)]
        before = [each.generation for each in driver.connections]
        driver.rejoin()
        assert [each.generation for each in driver.connections] == [generation + 1 for generation in before], "one rebalance, no more"
        again = described(ottla_broker, "a")
        assert {each.member_id for each in again.members} == {each.member_id for each in first["a"].members}
        assert all(each.member_assignment for each in again.members)
        driver.form(["c"] * 30)
        assert len(described(ottla_broker, "c").members) == 30


def test_a_stream_counts_answers(ottla_broker: Any) -> None:
    with GroupDriver(ottla_broker.bootstrap_servers, 3, heartbeat_ms=20) as driver:
        driver.form(["a"] * 3)
        frames = [[heartbeat_frame(b"a", each.generation, each.member_id)] * 4 for each in driver.connections]
        rate = driver.stream(frames, 4, 0.1)
        assert rate.per_second > 100
        assert 0 < rate.driver_share < 1.1
        driver.rejoin()  # nothing was left under way
        member = driver.connections[0]
        generations = (member.generation, member.generation, member.generation, 999)
        with pytest.raises(UnexpectedAnswer, match="not all answers are the same"):
            driver.stream([[heartbeat_frame(b"a", generation, member.member_id) for generation in generations]], 4, 0.1)


def test_an_answer_that_healthy_groups_never_get(ottla_broker: Any) -> None:
    with GroupDriver(ottla_broker.bootstrap_servers, 1) as driver, pytest.raises(UnexpectedAnswer, match="JoinGroup: error 24"):
        driver.form([""])
