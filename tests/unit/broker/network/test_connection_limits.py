"""The limits on connections: given at start, and changed while the broker runs."""

import asyncio

import pytest

from ottla.broker.network.connection_limits import ConnectionLimits
from ottla.core.config import BrokerConfig, ConfigError
from ottla.core.metadata.records import ConfigRecord
from ottla.core.metadata.resource_configs import BROKER_RESOURCE, ResourceConfigs

OVERRIDES = "max.connections.per.ip.overrides"


def configs(**given: str) -> ResourceConfigs:
    return ResourceConfigs(1, BrokerConfig({name.replace("_", "."): value for name, value in given.items()}).text)


def change(configs: ResourceConfigs, name: str, value: str | None) -> None:
    configs.replay(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=name, value=value))


def changed(limits: ConnectionLimits) -> None:
    async def run() -> None:
        limits.settings_changed()
        if limits._resolving is not None:
            await limits._resolving

    asyncio.run(run())


def test_overrides_name_hosts_or_addresses() -> None:
    limits = ConnectionLimits(configs(max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.1: 3 ,::1:4,localhost:0"))
    limits.load()
    assert (limits.of_address("10.0.0.1"), limits.of_address("127.0.0.1")) == (1, 0), "localhost is that address, and comes last"


def test_a_host_that_was_given_and_cannot_be_resolved() -> None:
    limits = ConnectionLimits(configs(max_connections_per_ip_overrides="no-such-host.invalid:1"))
    with pytest.raises(ConfigError, match=r"the host no-such-host\.invalid cannot be resolved"):
        limits.load()


def test_a_host_that_was_set_and_cannot_be_resolved_does_not_keep_the_broker_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    ours = configs()
    change(ours, OVERRIDES, "no-such-host.invalid:1")
    ConnectionLimits(ours).load()
    assert "no-such-host.invalid cannot be resolved" in caplog.text


def test_overrides_that_change(caplog: pytest.LogCaptureFixture) -> None:
    ours = configs()
    limits = ConnectionLimits(ours)
    limits.load()
    change(ours, OVERRIDES, "localhost:7")
    changed(limits)
    assert limits.of_address("127.0.0.1") == 7
    change(ours, OVERRIDES, "no-such-host.invalid:1")
    changed(limits)
    assert limits.of_address("127.0.0.1") == 7
    assert "the overrides before this change apply" in caplog.text
    change(ours, OVERRIDES, None)
    changed(limits)
    assert limits.of_address("127.0.0.1") == 2**31 - 1
