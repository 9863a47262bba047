"""What an application is told beside records: errors and throttling by brokers, statistics, lines of the log."""

import json
import logging
import socket
import ssl
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.consumer.monitoring import ConsumerLog, Monitor, Reporting, ThrottleEvent, python_level
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.consumer.properties import parse_properties
from ottla.client.engine.engine import Engine
from ottla.client.engine.values import ConsumerSettings, Endpoint, Metadata
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.membership.values import GroupSettings, JoinGroup
from ottla.groups.assignors import assignors

A, B = Address("a", 1), Address("b", 2)
REQUEST = Metadata(None)


class Told:
    """A monitor whose clock is set by hand, and what it tells."""

    def __init__(self, **reporting: Any) -> None:
        self.now_ms = 0.0
        self.told: list[Any] = []
        settings = ConsumerSettings(group=GroupSettings(group_id="g"))
        engine = Engine(settings, [assignors()["range"]], decode_plain, now_ms=0, rng=lambda: 0.5, time_of_day_ms=lambda: 0)
        engine.cluster.endpoints[7] = Endpoint(*B)
        callbacks = {"error_cb": self.told.append, "throttle_cb": self.told.append, "stats_cb": self.told.append}
        reports = Reporting(**callbacks | reporting)
        self.monitor = Monitor(reports, engine, client_id="me", name="[me]", now_ms=lambda: self.now_ms)

    def tell(self) -> list[Any]:
        while (notice := self.monitor.next_notice(1.5e9)) is not None:
            notice[0](notice[1])
        told = list(self.told)
        self.told.clear()
        return told

    def fail(self, address: Address, error: Exception, *, was_open: bool = False) -> list[Any]:
        self.monitor.connecting(address)
        self.monitor.failed(address, error, was_open=was_open, in_flight=0, is_late=False)
        return self.tell()


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (BrokerUnavailableError("gone"), "_TRANSPORT"),
        (caused(BrokerUnavailableError("gone"), socket.gaierror("no such name")), "_RESOLVE"),
        (AuthenticationError("gone"), "_AUTHENTICATION"),
        (caused(AuthenticationError("gone"), ssl.SSLError("gone")), "_SSL"),
    ],
)
def test_errors_have_librdkafkas_codes(error: Exception, name: str) -> None:
    first, second = Told().fail(B, error)
    assert (first.name(), first.str()) == (name, "b:2/7: gone")
    assert (second.name(), second.str()) == ("_ALL_BROKERS_DOWN", "1/1 brokers are down")


def test_the_same_error_is_told_again_after_a_while() -> None:
    told, gone = Told(), BrokerUnavailableError("gone")
    told.monitor.connecting(A)
    assert [each.name() for each in told.fail(B, gone)] == ["_TRANSPORT"]
    assert [each.name() for each in told.fail(A, gone)] == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    assert told.fail(A, gone) == []
    assert [each.str() for each in told.fail(A, BrokerUnavailableError("no"))] == ["a:1/bootstrap: no"]
    told.now_ms = 30_000
    assert [each.str() for each in told.fail(B, gone)] == ["b:2/7: gone"]
    told.monitor.connected(A)
    assert [each.name() for each in told.fail(A, BrokerUnavailableError("no"), was_open=True)] == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]


def test_throttling_is_told_until_it_ends() -> None:
    told = Told()
    told.monitor.connecting(B)
    told.monitor.connected(B)
    found = []
    for throttle_ms in (0, 250, 0, 0):
        told.monitor.sent(B, REQUEST, 10)
        told.monitor.received(B, REQUEST, memoryview(throttle_ms.to_bytes(4, "big") + b"..."), 1.0)
        found.append(told.tell())
    assert found == [[], [ThrottleEvent("b:2", 7, 0.25)], [ThrottleEvent("b:2", 7, 0.0)], []]
    assert {"broker_name", "broker_id", "throttle_time"} <= set(dir(found[1][0]))


def test_statistics_come_at_their_interval_and_count_what_happened() -> None:
    told = Told(statistics_interval_ms=1_000)
    told.monitor.connecting(B)
    told.monitor.connected(B)
    for number in range(1, 101):
        told.monitor.sent(B, REQUEST, 10)
        told.monitor.received(B, REQUEST, memoryview(bytes(20)), number)
    told.monitor.sent(B, REQUEST, 10)
    told.now_ms = 999
    assert not told.monitor.step(told.now_ms)
    told.now_ms = 2_500
    assert told.monitor.step(told.now_ms)
    assert told.monitor.statistics_ms == 3_000
    (text,) = told.tell()
    found = json.loads(text)
    assert (found["client_id"], found["type"], found["time"], found["age"]) == ("me", "consumer", 1_500_000_000, 2_500_000)
    assert (found["tx"], found["tx_bytes"], found["rx"], found["rx_bytes"]) == (101, 1_010, 100, 2_000)
    broker = found["brokers"]["b:2/7"]
    assert (broker["state"], broker["waitresp_cnt"], broker["stateage"]) == ("UP", 1, 2_500_000)
    assert (broker["req"]["Metadata"], broker["req"]["Fetch"]) == (101, 0)
    rtt = broker["rtt"]
    assert (rtt["min"], rtt["max"], rtt["avg"], rtt["cnt"], rtt["p50"], rtt["p99"]) == (1_000, 100_000, 50_500, 100, 51_000, 100_000)
    assert (rtt["p75"], rtt["p90"], rtt["p95"], rtt["p99_99"]) == (76_000, 91_000, 96_000, 100_000)
    assert rtt["stddev"] == 28_866
    assert json.loads(told.monitor.statistics(0))["brokers"]["b:2/7"]["rtt"]["cnt"] == 0, "a window of its own"


def test_statistics_have_the_reason_of_the_last_rebalance() -> None:
    told = Told()
    told.monitor.connecting(B)
    assert json.loads(told.monitor.statistics(0))["cgrp"]["rebalance_reason"] == ""
    names: Any = {"group_id": "g", "member_id": "m", "instance_id": None, "protocol_type": "consumer"}
    told.monitor.sent(
        B, JoinGroup(**names, session_timeout_ms=1, rebalance_timeout_ms=1, protocols=(), reason="subscription has changed"), 10
    )
    assert json.loads(told.monitor.statistics(0))["cgrp"]["rebalance_reason"] == "subscription has changed"


def test_an_application_that_does_not_poll_gets_the_statistics_once() -> None:
    told = Told(statistics_interval_ms=1_000)
    for now_ms in (1_000, 2_000, 3_000):
        assert told.monitor.step(now_ms)
    assert len(told.tell()) == 1


@pytest.mark.parametrize(
    ("debug", "lines"),
    [
        ("metadata", ["sent Metadata, 10 bytes"]),
        ("all", ["connected", "sent Metadata, 10 bytes", "closed"]),
        ("broker", ["connected", "closed"]),
        ("fetch,mock", []),
    ],
)
def test_words_for_debugging(debug: str, lines: list[str], caplog: pytest.LogCaptureFixture) -> None:
    reporting = parse_properties({"bootstrap.servers": "h:1", "group.id": "g", "debug": debug, "log_level": 3}).reporting
    told = Told(debug=reporting.debug, log=reporting.log)
    with caplog.at_level(logging.DEBUG, "ottla.consumer"):
        told.monitor.connecting(B)
        told.monitor.connected(B)
        told.monitor.sent(B, REQUEST, 10)
        told.monitor.closed(B, 1)
    assert caplog.messages == [f"[me] broker b:2: {line}" for line in lines]


def test_levels_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert [python_level(level) for level in (0, 3, 4, 6, 7)] == [50, 40, 30, 20, 10]
    with caplog.at_level(logging.DEBUG, "ottla.consumer"):
        log = ConsumerLog(lowest=python_level(4))
        log.log(logging.INFO, "no")
        log.log(logging.WARNING, "%s", "yes")
    assert caplog.messages == ["yes"]
