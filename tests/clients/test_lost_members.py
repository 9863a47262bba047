"""Memberships lost on purpose: the consumer distinguishes the causes, in its log, in its metrics, and in the reasons at the broker."""

import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from ottla.broker import Broker
from ottla.groups.events import GroupEvent
from ottla.groups.reason_evidence import MemberCause, evidence_in
from ottla.history.sources.evidence import Cause
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Confidence
from tests.support.processes import LineProgram

PROGRAM = Path(__file__).with_name("stalling_consumer.py")
STALL_SECONDS = 1.6
ATTEMPTS_MAX = 10
"""On a busy machine the process may get no CPU for a while, which then is the cause."""


class Relay:
    """Carries bytes between clients and a broker, in both directions, until it is cut: then it keeps what comes, and takes no clients."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = host, int(port)
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._open.set()
        for each in self._sockets:
            each.close()

    def cut(self, seconds: float) -> None:
        """Carry nothing for so long."""
        self._open.clear()
        time.sleep(seconds)
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                self._open.wait()
                broker = socket.create_connection(self._broker)
            except OSError:
                return
            self._sockets += [client, broker]
            for one, other in ((client, broker), (broker, client)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65_536):
                self._open.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            return


class Consumer:
    """The program, and what the broker notices of it."""

    def __init__(self, program: LineProgram, relay: Relay, events: list[GroupEvent]) -> None:
        self.program, self.relay, self.events = program, relay, events

    def loses(self, action: str | Callable[[], None], cause: MemberCause) -> str:
        """Do something that costs the membership; the log line that has this cause. The member is back afterwards.

        What it measured is in the advice that `ottla diagnose` would give, too.
        """
        for _ in range(ATTEMPTS_MAX):
            since = len(self.program.events)
            if isinstance(action, str):
                self.program.send(action)
            else:
                action()
            self.program.wait_for(assigned, "the member to be back", since=since)
            lines = [each["text"] for each in self.program.events[since:] if each["event"] == "logged"]
            found = [line for line in lines if is_loss(line) and f"; {cause}: " in line]
            if found and cause in advised(self.events):
                return str(found[0])
        raise AssertionError(f"no loss by {cause}: {lines}")

    def metrics(self) -> dict[str, float]:
        since = len(self.program.events)
        self.program.send("metrics")
        values: dict[str, float] = self.program.wait_for(
            lambda events: next((each["values"] for each in events if each["event"] == "metrics"), None), "metrics", since=since
        )
        return values

    def causes(self) -> set[MemberCause | None]:
        """What the broker has read in the reasons of joins and leaves."""
        return {evidence_in(event.client_reason or "") for event in self.events}

    def stop(self) -> None:
        self.program.send_signal(signal.SIGSTOP)
        time.sleep(STALL_SECONDS)
        self.program.send_signal(signal.SIGCONT)


def assigned(events: list[Any]) -> bool:
    return any(each["event"] == "assigned" and each["count"] for each in events)


def is_loss(text: str) -> bool:
    """Whether a line is about a membership that is lost, and not about a stall that may cost one."""
    return "sent no heartbeat" not in text


def advised(events: list[GroupEvent]) -> set[MemberCause]:
    """The causes that members have measured, as the advice of sure verdicts has them."""
    evidence = list(evidence_of_events(events, clock="broker"))
    found = set()
    for verdict in judge(evidence)["pilots"]:
        for advice in verdict.advice:
            measured = re.match(r"The member measured ([\w ]+): ", advice.sentence)
            # On a busy machine a session may expire before the LeaveGroup is read.
            is_sure = verdict.confidence is Confidence.HIGH and verdict.cause in (Cause.EXPIRE_HEARTBEAT, Cause.POLL_TIMEOUT)
            if measured and is_sure:
                found.add(MemberCause(measured[1]))
    return found


@pytest.fixture
def consumer(tmp_path: Path, library_on: Callable[..., Any]) -> Iterator[Consumer]:
    events: list[GroupEvent] = []
    config = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
    with Broker(config=config, on_group_event=events.append) as broker, Relay(broker.bootstrap_servers) as relay:
        library = library_on(broker)
        library.create_topic("flights", 1)
        library.produce("flights", [(0, b"x")] * 100)
        command = [sys.executable, str(PROGRAM), broker.bootstrap_servers, "flights", "pilots", str(relay.port)]
        with LineProgram(command, error_path=tmp_path / "errors") as program:
            program.wait_for(assigned, "an assignment")
            yield Consumer(program, relay, events)


def test_the_causes_of_a_lost_membership_are_told_apart(consumer: Consumer) -> None:
    slow = consumer.loses("slow", MemberCause.SLOW_PROCESSING)
    assert "max.poll.interval.ms is 1000; slow processing: 8 records " in slow
    assert "set max.poll.records to " in slow
    consumer.loses("block", MemberCause.BLOCKED)
    before = consumer.metrics()
    consumer.loses("collect", MemberCause.GARBAGE_COLLECTION)
    consumer.loses("hold", MemberCause.GIL_HELD)
    consumer.loses(consumer.stop, MemberCause.STOPPED)
    cut = consumer.loses(lambda: consumer.relay.cut(STALL_SECONDS), MemberCause.NETWORK)
    assert "no broker answered anything for " in cut
    # At the broker: poll timeouts in the LeaveGroup, the others in the JoinGroup of the member that is back.
    told = {None, *MemberCause} - {MemberCause.UNKNOWN, MemberCause.THREAD_LATE, MemberCause.LOOP_BLOCKED}
    assert consumer.causes() >= told
    expired = [event for event in consumer.events if (event.client_reason or "").startswith("consumer poll timeout has expired. [slow")]
    assert {event.trigger for event in expired} <= {"POLL_TIMEOUT"}
    after = consumer.metrics()
    stalls = {name: after[name] - before[name] for name in ("stall-gc-time-total", "stall-gil-time-total", "stall-stopped-time-total")}
    assert all(milliseconds >= 200 for milliseconds in stalls.values()), stalls
    assert after["gc-time-max"] >= 1_000
    assert after["time-between-poll-max"] >= 1_000
    assert after["rebalance-total"] >= 7
    assert after["heartbeat-delay-max"] >= 200
