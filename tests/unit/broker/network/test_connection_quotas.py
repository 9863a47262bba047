"""Kafka's bounds on connections, and the process's descriptors."""

import pytest

from ottla.broker.network.connection_quotas import ConnectionQuotas, quotas
from ottla.broker.network.descriptors import Descriptors
from ottla.core.config import BrokerConfig, ConfigError

FREE = Descriptors(None, 0)


def made(connections_max: int = 100, per_ip_max: int = 100, overrides: dict[str, int] | None = None, descriptors: Descriptors = FREE):
    return ConnectionQuotas(connections_max=connections_max, per_ip_max=per_ip_max, overrides=overrides or {}, descriptors=descriptors)


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


def test_settings() -> None:
    text = "127.0.0.1: 3 ,::1:4,localhost:0"
    quota = quotas(BrokerConfig({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": text}), FREE)
    assert [quota.admit("10.0.0.1", 0) for _ in range(2)] == [True, False]
    assert not quota.admit("127.0.0.1", 0), "localhost is that address, and comes last"


def test_a_host_that_cannot_be_resolved() -> None:
    with pytest.raises(ConfigError, match=r"the host no-such-host\.invalid cannot be resolved"):
        quotas(BrokerConfig({"max.connections.per.ip.overrides": "no-such-host.invalid:1"}), FREE)
