"""Kafka's bounds on connections, and the process's descriptors."""

import pytest

from ottla.broker.network.connection_limits import ConnectionLimits
from ottla.broker.network.connection_quotas import ConnectionQuotas
from ottla.broker.network.descriptors import Descriptors
from ottla.core.config import BrokerConfig
from ottla.core.metadata.records import ConfigRecord
from ottla.core.metadata.resource_configs import BROKER_RESOURCE, ResourceConfigs

FREE = Descriptors(None, 0)


def made(connections_max: int = 100, per_ip_max: int = 100, overrides: dict[str, int] | None = None, descriptors: Descriptors = FREE):
    text = ",".join(f"{address}:{count}" for address, count in (overrides or {}).items())
    given = {"max.connections": connections_max, "max.connections.per.ip": per_ip_max, "max.connections.per.ip.overrides": text}
    limits = ConnectionLimits(ResourceConfigs(1, BrokerConfig(given).text))
    limits.load()
    return ConnectionQuotas(limits, descriptors)


def test_of_one_address(caplog: pytest.LogCaptureFixture) -> None:
    quota = made(per_ip_max=2)
    assert [quota.admit("10.0.0.1", 0) for _ in range(4)] == [True, True, False, False]
    assert quota.admit("10.0.0.2", 0)
    quota.leave("10.0.0.1")
    assert [quota.admit("10.0.0.1", 1) for _ in range(2)] == [True, False]
    assert caplog.messages == [
        "Rejected connection from 10.0.0.1, address already has the configured maximum of 2 connections (max.connections.per.ip)"
    ]


def test_an_override_is_above_or_below_the_bound_of_all() -> None:
    quota = made(per_ip_max=2, overrides={"10.0.0.1": 3, "10.0.0.2": 0})
    assert [quota.admit("10.0.0.1", 0) for _ in range(4)] == [True, True, True, False]
    assert not quota.admit("10.0.0.2", 0)


def test_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    quota = made(connections_max=2)
    assert [quota.admit(f"10.0.0.{number}", 0) for number in range(3)] == [True, True, False]
    assert "maximum of 2 connections (max.connections)" in caplog.text


def test_descriptors_are_shared_by_the_brokers_of_a_process(caplog: pytest.LogCaptureFixture) -> None:
    descriptors = Descriptors(64, 16)
    one, two = made(descriptors=descriptors), made(descriptors=descriptors)
    assert all(quota.admit("10.0.0.1", 0) for _ in range(8) for quota in (one, two))
    assert not one.admit("10.0.0.1", 0)
    assert "16 connections are open" in caplog.text
    two.leave("10.0.0.1")
    assert one.admit("10.0.0.1", 0)


def test_a_limit_that_changes_is_that_of_the_next_connection() -> None:
    configs = ResourceConfigs(1, BrokerConfig({"max.connections": "1"}).text)
    quota = ConnectionQuotas(ConnectionLimits(configs), FREE)
    assert [quota.admit("10.0.0.1", 0) for _ in range(2)] == [True, False]
    configs.replay(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="max.connections", value="2"))
    assert [quota.admit("10.0.0.1", 0) for _ in range(2)] == [True, False]
    configs.replay(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="max.connections.per.ip", value="0"))
    quota.leave("10.0.0.1")
    assert not quota.admit("10.0.0.1", 0)
