"""Kafka's bounds on connections, and the process's descriptors."""

import asyncio
import errno
import logging
import resource
import socket

import pytest

from ottla.broker.network.limits import (
    OTHERS_MIN,
    PERIOD_S,
    RAISED_MAX,
    ConnectionLimits,
    ConnectionQuotas,
    Descriptors,
    RepeatedWarning,
    check_limit,
    connections_max,
    descriptor_limit,
    limit_accept_errors,
    raise_limit,
)
from ottla.config import BrokerConfig, ConfigError
from ottla.metadata.client_quotas import ClientQuotas
from ottla.metadata.records import ClientQuotaRecord, ConfigRecord, QuotaEntity
from ottla.metadata.resource_configs import BROKER_RESOURCE, ResourceConfigs

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


# The limits on connections: given at start, and changed while the broker runs.

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


# Descriptors: what connections may take, and that it is said once when none is left.


@pytest.mark.parametrize(
    ("limit", "files_max", "left"), [(1024, 256, 640), (256, 64, 160), (64, 16, 16), (1024, 0, 896), (20, 16, 5), (2, 16, 1)]
)
def test_connections_leave_some_for_files_and_all_else(limit: int, files_max: int, left: int) -> None:
    assert connections_max(limit, files_max) == left


def test_no_limit() -> None:
    descriptors = Descriptors(None, 100)
    descriptors.connections = 1_000_000
    assert descriptors.are_left


def test_the_limit_is_that_of_the_process() -> None:
    assert descriptor_limit() is None or descriptor_limit() > 2


def test_that_none_is_left_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def none() -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    descriptors = Descriptors(100, 10)
    descriptors.check()
    descriptors.check(none)
    descriptors.check(none)
    descriptors.check()
    descriptors.check()
    assert [message.split(":")[0] for message in caplog.messages] == ["no file descriptor is left", "file descriptors are free again"]


def test_the_check_keeps_no_descriptor_and_hides_no_other_error() -> None:
    made: list[socket.socket] = []

    def open_one() -> socket.socket:
        made.append(socket.socket())
        return made[-1]

    descriptors = Descriptors(100, 10)
    descriptors.check(open_one)
    assert made[0].fileno() == -1

    def broken() -> socket.socket:
        raise OSError(errno.ENOMEM, "no memory")

    with pytest.raises(OSError, match="no memory"):
        descriptors.check(broken)


def test_so_few_descriptors_are_not_enough_to_start() -> None:
    check_limit(None)
    check_limit(OTHERS_MIN)
    with pytest.raises(ConfigError, match=f"may have 10 files open, and a broker needs {OTHERS_MIN} at least"):
        check_limit(10)


def test_a_loop_that_cannot_accept_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    limit_accept_errors(loop)
    for _ in range(5):
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "Too many")})
    loop.call_exception_handler({"message": "another one", "exception": ZeroDivisionError()})
    loop.close()
    assert [message.partition(":")[0] for message in caplog.messages] == ["connections are not accepted", "another one"]


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [(1024, 4096, (4096, 4096)), (1024, -1, (RAISED_MAX, -1)), (1024, RAISED_MAX * 2, (RAISED_MAX, RAISED_MAX * 2)), (1024, 1024, None)],
)
def test_a_broker_of_its_own_process_raises_its_limit(
    soft: int, hard: int, raised: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: given.append(limits))
    raise_limit()
    assert given == ([] if raised is None else [raised])


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()


# A line that repeats is written once a minute.


def test_the_first_line_is_written_and_the_rest_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    limit = RepeatedWarning(logging.getLogger("limited"))
    for now_s in (0.0, 1.0, PERIOD_S - 1, PERIOD_S, PERIOD_S + 1, 2 * PERIOD_S):
        limit.warning(now_s, "again")
    assert caplog.messages == [
        "again",
        "again (2 more like this since the last such line)",
        "again (1 more like this since the last such line)",
    ]


def test_the_rate_of_an_address_is_bounded_by_its_quota(caplog: pytest.LogCaptureFixture) -> None:
    quotas = ClientQuotas()
    quota = ConnectionQuotas(ConnectionLimits(ResourceConfigs(1, BrokerConfig().text)), FREE, quotas)
    assert all(quota.admit("::1", 0) for _ in range(100))
    for address, rate in (("0:0:0:0:0:0:0:1", 2.0), (None, 1.0)):
        entity = (QuotaEntity(entity_type="ip", entity_name=address),)
        quotas.replay(ClientQuotaRecord(entity=entity, key="connection_creation_rate", value=rate, remove=False))
    assert [quota.admit("::1", 1) for _ in range(21)] == [True] * 20 + [False], "two a second, in ten seconds at least"
    assert [quota.admit("10.0.0.1", 1) for _ in range(11)] == [True] * 10 + [False]
    assert not quota.admit("::1", 10)
    assert quota.admit("::1", 12), "those of the first second are forgotten"
    assert "it makes more than connection_creation_rate allows" in caplog.text
