"""The process that leaves a group for a query whose planner was killed."""

import json
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.core.errors import ErrorCode
from ottla.spark.group import departure
from ottla.spark.group.departure import REASON, Departure, leave, main

PROPERTIES = {"group.id": "g", "bootstrap.servers": "localhost:9092", "session.timeout.ms": "6000"}


class Admin:
    """Records who leaves."""

    left: list[tuple[str, ...]]
    failure: Failure | None = None

    def __init__(self, settings: Any, *, timeout_ms: int) -> None:
        assert settings.bootstrap_servers == "localhost:9092"

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def remove_member(self, *arguments: str) -> Failure | None:
        self.left.append(arguments)
        return self.failure


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    monkeypatch.setattr("ottla.client.admin.client.AdminClient", Admin)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    Admin.left = []
    return Admin.left


def lines(*values: Mapping[str, Any]) -> list[str]:
    return [json.dumps(value) + "\n" for value in ({"properties": PROPERTIES}, *values)]


def test_the_last_member_leaves(left: list[tuple[str, ...]]) -> None:
    main([*lines({"member_id": "m-1"}, {"member_id": "m-2"}), '{"member_id": "m-'])
    assert left == [("g", "m-2", REASON)]


@pytest.mark.parametrize("given", [[], lines(), lines({"member_id": "m-1"}, {"member_id": ""})])
def test_who_has_left_or_never_joined_does_not(left: list[tuple[str, ...]], given: list[str]) -> None:
    main(given)
    assert left == []


def test_a_refusal_is_logged(left: list[tuple[str, ...]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Admin, "failure", Failure(ErrorCode.UNKNOWN_MEMBER_ID))
    leave(PROPERTIES, "m-1")
    assert caplog.messages == ["member m-1 of the group g did not leave: UNKNOWN_MEMBER_ID"]


def test_no_broker_answers(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "TIMEOUT_MS", 1)
    leave({**PROPERTIES, "bootstrap.servers": "127.0.0.1:1"}, "m-1")
    assert caplog.messages[0].startswith("member m-1 of the group g did not leave: ")


def test_the_process_outlives_who_started_it() -> None:
    from ottla import Consumer

    config = {"group.initial.rebalance.delay.ms": 0}
    with Broker(config=config) as broker, AdminClient(broker.bootstrap_servers) as admin:
        properties = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        consumer = Consumer(properties)
        consumer.subscribe(["t"])
        while consumer.generation_id() < 0:
            consumer.poll(0.05)
        process = Departure(properties)
        process.joined(consumer.memberid() or "")
        assert process._process.stdin is not None
        os.close(os.dup(process._process.stdin.fileno()))  # another descriptor of the pipe ends nothing
        assert process._process.poll() is None
        process._process.stdin.close()  # what the end of the planner does
        assert process._process.wait(30) == 0
        described = admin.describe_groups(["g"])["g"]
        assert not isinstance(described, Failure)
        assert described.members == ()
        consumer.close()


def test_a_process_that_was_ended(caplog: pytest.LogCaptureFixture) -> None:
    process = Departure(PROPERTIES)
    process._process.kill()
    process._process.wait()
    process.joined("m-1")
    assert "would stay until its session expires" in caplog.text
    process.close()
