"""What a driver carries between the engine and its connections."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.addresses import Address
from ottla.client.consumer.exchange import WAIT_MS_MAX, Exchange, new_engine
from ottla.client.consumer.links import Outcome
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.engine import Engine
from ottla.client.engine.values import ConsumerSettings, Endpoint, MetadataResponse, Send
from ottla.client.errors import AuthenticationError, BrokerUnavailableError
from ottla.client.membership.evidence import Lateness
from ottla.client.membership.values import GroupSettings
from ottla.client.settings import ClientSettings
from ottla.groups.assignors import assignors
from ottla.protocol.errors import PeerError


def test_a_new_engine_has_the_clock_of_its_drivers() -> None:
    before_ms = time.monotonic() * 1000
    settings = ConsumerSettings(group=GroupSettings(group_id="g"), auto_commit_interval_ms=5_000)
    engine = new_engine(settings, [assignors()["range"]], decode_plain)
    due_ms = engine.commits.next_poll_ms()
    assert due_ms is not None
    assert before_ms + 5_000 <= due_ms <= time.monotonic() * 1000 + 5_000


def made(connect: Any = lambda *_: None) -> Exchange:
    settings = ConsumerSettings(group=GroupSettings(group_id="g"))
    engine = Engine(settings, [assignors()["range"]], decode_plain, now_ms=0, rng=lambda: 0.5, time_of_day_ms=lambda: 0)
    client = ClientSettings(bootstrap_servers="a:1")
    return Exchange(engine, client, connect=connect, rng=lambda: 0.5, clock=lambda: 0.0, wake=lambda: None)


def send(exchange: Exchange) -> Send:
    """The request for metadata of a subscription."""
    exchange.engine.subscribe(["t"], [])
    return next(send for send in exchange.engine.next_sends(exchange.now_ms()) if "Metadata" in repr(send))


def test_without_anything_to_do_it_waits_for_a_minute() -> None:
    assert made().wait_ms() == WAIT_MS_MAX


def test_requests_wait_for_a_connection() -> None:
    tried: list[Address] = []

    def connect(address: Address, settings: Any, timeout_ms: int) -> Any:
        tried.append(address)
        raise BrokerUnavailableError("gone")

    exchange = made(connect)
    exchange.engine.subscribe(["t"], [])
    exchange.send_due()
    assert exchange.wait_ms() <= 30_000
    exchange.links.close()


def test_outcomes_reach_the_engine() -> None:
    exchange = made()
    sent = send(exchange)
    for count, error in enumerate((BrokerUnavailableError("gone"), AuthenticationError("no"), PeerError("nonsense")), 1):
        exchange.report([Outcome(sent, None, error)])
        assert (exchange.unreachable, exchange.unanswered) == (str(error), count)
        assert exchange.refusal is (None if count == 1 else error)
    exchange.report([Outcome(sent, MetadataResponse({1: Endpoint("h", 1)}, ()), None)])
    assert (exchange.unreachable, exchange.unanswered) == ("", 0)
    assert exchange.engine.cluster.endpoints == {1: Endpoint("h", 1)}


def test_a_response_that_makes_no_sense_is_a_refusal() -> None:
    exchange = made()
    sent = send(exchange)
    nonsense = PeerError("no such partition")

    def fail(*_: Any) -> None:
        raise nonsense

    exchange.engine.on_response = fail  # type: ignore[method-assign]
    exchange.report([Outcome(sent, object(), None)])
    assert exchange.refusal is nonsense
    assert exchange.engine.cluster.endpoints == {}


@pytest.mark.parametrize(
    ("is_active", "is_leaving", "unreachable", "has_left"),
    [
        (False, False, "", True),
        (False, True, "", False),
        (False, True, "connection refused", True),
        (True, False, "", False),
        (True, True, "connection refused", False),
    ],
)
def test_a_leave_ends_with_its_answer_or_without_a_coordinator(is_active: bool, is_leaving: bool, unreachable: str, has_left: bool) -> None:
    exchange = made()
    exchange.engine = SimpleNamespace(rebalances=SimpleNamespace(is_active=is_active), is_leaving=is_leaving)  # type: ignore[assignment]
    exchange.unreachable = unreachable
    assert exchange.has_left is has_left


def test_a_stall_is_known_before_the_timers_and_responses_are_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    exchange = made()
    late = Lateness(late_ms=44_000, gc_ms=0, own_cpu_ms=0, process_cpu_ms=0, switches=1)
    order: list[str] = []
    exchange.stalls = SimpleNamespace(late=lambda: order.append("stall") or [late])  # type: ignore[assignment, func-returns-value]
    exchange.engine.next_sends = lambda now_ms: order.append("timers") or []  # type: ignore[method-assign, func-returns-value]
    exchange.send_due()
    assert order == ["stall", "timers"]
    assert exchange.metrics()["stall-time-total"] == 44_000
    exchange.write_log()
    (record,) = caplog.records
    assert record.name == "ottla.consumer"
    assert record.getMessage().startswith(
        "[Consumer clientId=ottla, groupId=g] sent no heartbeat for 44000 ms, session.timeout.ms is 45000; process stopped: "
    )
    assert not exchange.engine.evidence.log_lines
    order.clear()
    exchange.engine.on_response = lambda *_: order.append("response")  # type: ignore[method-assign]
    exchange.report([Outcome(SimpleNamespace(request=None), SimpleNamespace(), None)])  # type: ignore[arg-type]
    assert order == ["stall", "response"]
    assert exchange.metrics()["stall-time-total"] == 88_000


def test_metrics_have_those_of_the_process() -> None:
    assert {"gc-total", "assigned-partitions"} <= made().metrics().keys()
