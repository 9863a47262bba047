"""What every driver of a consumer does: it carries the engine's requests to brokers, and their outcomes back. It waits for nothing.

Its user waits for the sockets: a thread (`driver`), or an event loop (`async_consumer.driver`). It decides nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from secrets import SystemRandom
from typing import Final

from ottla.client.addresses import parse_addresses
from ottla.client.brokers import Connect
from ottla.client.consumer.links import Links, Outcome
from ottla.client.consumer.monitoring import QUIET, Monitor, Reporting
from ottla.client.consumer.stall_meter import GcPauses, StallMeter
from ottla.client.engine.engine import Engine
from ottla.client.engine.record_buffer import Decode
from ottla.client.engine.values import ConsumerSettings, Send
from ottla.client.errors import AuthenticationError, UnsupportedBrokerError
from ottla.client.settings import ClientSettings
from ottla.groups.assignors import Assignor
from ottla.protocol.errors import PeerError

WAIT_MS_MAX: Final = 60_000.0
RANDOM: Final = SystemRandom()


def new_engine(settings: ConsumerSettings, assignors: Sequence[Assignor], decode: Decode) -> Engine:
    """An engine with the clocks and the random numbers of this process."""
    now_ms = time.monotonic() * 1000
    return Engine(settings, assignors, decode, now_ms=now_ms, rng=RANDOM.random, time_of_day_ms=lambda: time.time_ns() // 1_000_000)


class Exchange:
    """The requests of `engine` over `links`. `clock` is in seconds; `wake` is called in another thread when a connection is open.
    `is_loop`: it runs in an event loop, not in a thread of its own.

    `refusal`: a broker rejects the client, or the other way round; `unreachable`: why the last broker could not be reached, "" since one
    answered; `unanswered`: requests since then. `stalls` and `collections` measure this process, for the engine's evidence: its user says
    when it waits. `monitor`: what `reporting` asks for, None where that is nothing.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ClientSettings,
        *,
        connect: Connect,
        rng: Callable[[], float],
        clock: Callable[[], float],
        wake: Callable[[], None],
        is_loop: bool = False,
        reporting: Reporting = QUIET,
    ) -> None:
        self.engine = engine
        self.refusal: Exception | None = None
        self.unreachable = ""
        self.unanswered = 0
        self.collections = GcPauses(clock=clock)
        self.stalls = StallMeter(self.collections, clock=clock, is_loop=is_loop)
        self._clock = clock
        group = engine.settings.group
        instance = "" if group.instance_id is None else f"instanceId={group.instance_id}, "
        self._log = reporting.log
        self._name = f"[Consumer {instance}clientId={settings.client_id}, groupId={group.group_id}]"
        bootstrap = parse_addresses(settings.bootstrap_servers)
        self.monitor = None
        if reporting.is_wanted:
            self.monitor = Monitor(reporting, engine, client_id=settings.client_id, name=self._name, now_ms=self.now_ms)
        self.links = Links(settings, bootstrap, connect=connect, wake=wake, now_ms=self.now_ms, rng=rng, monitor=self.monitor)

    def now_ms(self) -> float:
        """The engine's clock."""
        return self._clock() * 1000

    def send_due(self) -> None:
        """Send all that is due."""
        while sends := self._next_sends():
            outcomes = [outcome for send in sends for outcome in self.links.send(send, self.engine.cluster.endpoints)]
            if outcomes:  # otherwise, what was sent may have changed what is due
                self.report(outcomes)

    def _next_sends(self) -> list[Send]:
        # What the engine finds to be over at this time has its explanation in stalls before it.
        now_ms = self.now_ms()
        self._note_stalls()
        return self.engine.next_sends(now_ms)

    def _note_stalls(self) -> None:
        for late in self.stalls.late():
            self.engine.evidence.stalled(late, self.now_ms())

    def wait_ms(self) -> float:
        """How long there is nothing to send or to end, unless a socket is ready."""
        now_ms = self.now_ms()
        statistics_ms = None if self.monitor is None else self.monitor.statistics_ms
        times = [each for each in (self.engine.next_ms(now_ms), self.links.next_ms(), statistics_ms) if each is not None]
        return min(max(min(times, default=WAIT_MS_MAX + now_ms) - now_ms, 0.0), WAIT_MS_MAX)

    @property
    def has_left(self) -> bool:
        """Whether nothing of a leave is to be waited for any more.

        A coordinator that cannot be reached cannot be told, and removes the member when its session expires.
        """
        return not self.engine.rebalances.is_active and (not self.engine.is_leaving or bool(self.unreachable))

    def metrics(self) -> dict[str, float]:
        """The engine's metrics, and those of this process."""
        return self.engine.metrics.values(self.now_ms()) | self.collections.metrics()

    def write_log(self) -> None:
        """Log what has become of the membership, and why. It may take a while: not to be called under a lock."""
        lines = self.engine.evidence.log_lines
        while lines:
            line = lines.popleft()
            if isinstance(line, str):
                self._log.log(logging.INFO, "%s %s", self._name, line)
            else:
                self._log.log(logging.WARNING, "%s %s", self._name, line.sentence)

    def report(self, outcomes: list[Outcome]) -> None:
        """Tell the engine what became of its requests."""
        self._note_stalls()
        now_ms = self.now_ms()
        for send, response, error in outcomes:
            if error is None:
                self.unreachable, self.unanswered = "", 0
                try:
                    self.engine.on_response(send, response, now_ms)
                except PeerError as nonsense:
                    self.refusal = nonsense
                    self.engine.on_no_response(send, str(nonsense), now_ms)
                continue
            self.unreachable, self.unanswered = str(error), self.unanswered + 1
            if isinstance(error, AuthenticationError | UnsupportedBrokerError | PeerError):
                self.refusal = error
            self._log.log(logging.DEBUG, "%s was not answered: %s", type(send.request).__name__, error)
            self.engine.on_no_response(send, str(error), now_ms)
