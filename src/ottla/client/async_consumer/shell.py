"""The engine of a consumer in an event loop: who waits for what, rebalances in the background, and errors by aiokafka's names.

All of it runs in the thread of the loop. Rebalances go on while the application works, as in aiokafka; after max.poll.interval.ms without
a call they wait until it calls again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.client.addresses import parse_addresses
from ottla.client.async_consumer.arguments import Arguments
from ottla.client.async_consumer.decoding import LoadingDecoder
from ottla.client.async_consumer.driver import AsyncDriver
from ottla.client.async_consumer.errors import (
    AuthenticationFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    error_of,
)
from ottla.client.async_consumer.listener import Notifier
from ottla.client.consumer.exchange import RANDOM, new_engine
from ottla.client.engine.rebalances import ASSIGNED, Callback
from ottla.client.engine.subscriptions import PartitionState
from ottla.client.errors import AuthenticationError, UnsupportedBrokerError
from ottla.client.membership.values import MemberState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

_LOG: Final = logging.getLogger("ottla.consumer")
LOOK_MS: Final = 1_000.0
"""How often a wait without an end looks again."""
CLOSE_MS: Final = 30_000.0


class Shell:
    """One consumer in `loop`. `is_started`: records may be asked for. `is_stopped`: no call is possible any more."""

    def __init__(self, arguments: Arguments, loop: asyncio.AbstractEventLoop) -> None:
        self.decoder = LoadingDecoder(loop, on_loaded=self._on_change)
        self.engine = new_engine(arguments.consumer, arguments.assignors, self.decoder)
        self.driver = AsyncDriver(
            self.engine, arguments.client, loop=loop, connect=arguments.connect, rng=RANDOM.random, on_change=self._on_change
        )
        self.notifier = Notifier(is_cooperative=self.engine.membership.is_cooperative)
        self.is_started = self.is_stopped = False
        self._bootstrap_servers = arguments.client.bootstrap_servers
        self._loop = loop
        self._waiters: set[asyncio.Future[None]] = set()
        self._steps: asyncio.Task[None] | None = None
        self._is_leaving = False
        self._then: Callable[[], None] | None = None

    def now_ms(self) -> float:
        """The engine's clock."""
        return self.driver.now_ms()

    def state(self, partition: TopicPartition) -> PartitionState:
        """An assigned partition. Raises IllegalStateError."""
        self.engine.settle()
        state = self.engine.subscriptions.partitions.get(partition)
        if state is None:
            raise IllegalStateError(f"Partition {partition} is not assigned")
        return state

    # Waiting.

    async def wait(self, timeout_ms: float = LOOK_MS) -> None:
        """Until something has changed, but not longer than `timeout_ms`."""
        waiter = self._loop.create_future()
        self._waiters.add(waiter)
        timer = self._loop.call_later(max(timeout_ms, 0) / 1000, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Until the condition holds, or there is an error to raise: whether it came within `timeout_ms`."""
        ends_ms = self.now_ms() + timeout_ms
        while not condition():
            self.poll()
            left_ms = ends_ms - self.now_ms()
            if left_ms <= 0:
                return False
            await self.wait(min(left_ms, LOOK_MS))
            self._raise_stopped()
        return True

    def _on_change(self) -> None:
        for commit in self.engine.commits.finished:
            if commit.error is not ErrorCode.NONE:
                _LOG.warning("automatic commit of %s failed: %s", dict(commit.offsets), commit.error.name)
        self.engine.commits.finished.clear()
        self._end_waits()
        self.run_steps()

    # Errors.

    def poll(self, *, is_processed: bool = False) -> None:
        """The application calls; `is_processed`: it has processed all that it got. Raises what it has to know."""
        self._raise_refusal()
        failure = self.engine.poll(self.now_ms(), is_processed=is_processed)
        self.run_steps()
        if isinstance(failure, ErrorCode):
            text = self.engine.membership.failure_text
            raise error_of(failure) if text is None else error_of(failure, text)
        if failure is not None:
            raise KafkaError(str(failure)) from failure

    def _raise_stopped(self) -> None:
        if self.is_stopped:
            raise ConsumerStoppedError

    def _raise_refusal(self) -> None:
        driver = self.driver
        if driver.failure is not None:
            raise KafkaError(f"the consumer has ended: {driver.failure!r}") from driver.failure
        refusal, driver.refusal = driver.refusal, None
        if isinstance(refusal, AuthenticationError):
            raise AuthenticationFailedError(str(refusal)) from refusal
        if isinstance(refusal, UnsupportedBrokerError):
            raise IncompatibleBrokerVersion(str(refusal)) from refusal
        if refusal is not None:
            raise KafkaError(str(refusal)) from refusal

    # Membership.

    async def start(self) -> None:
        """Connect; with a subscription to topics, wait until the group has given partitions. Raises KafkaConnectionError."""
        self.is_started = True
        engine, driver = self.engine, self.driver
        engine.cluster.request_brokers()
        driver.start()
        addresses = len(parse_addresses(self._bootstrap_servers))
        while not engine.cluster.endpoints:
            self._raise_refusal()
            self._raise_stopped()
            if driver.unanswered >= addresses:
                raise KafkaConnectionError(f"Unable to bootstrap from {self._bootstrap_servers}: {driver.unreachable}")
            await self.wait()
        if engine.settings.group.group_id and engine.subscriptions.topics:
            while engine.membership.state is not MemberState.STABLE or engine.rebalances.is_due:
                self.poll()
                await self.wait()
                self._raise_stopped()

    def leave(self, reason: str) -> None:
        """Begin to give up subscription and assignment, without the listener."""
        self.notifier.listener = None
        self.engine.settle()
        self.engine.leave(reason, self.now_ms())
        self._is_leaving = True
        self.driver.wake()
        self.run_steps()

    def after_leaving(self, then: Callable[[], None]) -> None:
        """Call `then` when `leave` is over: now, or later."""
        if self._is_leaving:
            self._then = then
        else:
            then()

    def run_steps(self) -> None:
        """Go on with a rebalance in the background, if there is one to go on with."""
        if self._steps is None and self.engine.rebalances.is_due and not self.engine.membership.has_poll_expired and not self.is_stopped:
            self._steps = self._loop.create_task(self._run_steps())

    async def stop(self, reason: str) -> None:
        """Commit (with enable_auto_commit), leave the group, and close all connections."""
        self.is_stopped = True
        self._end_waits()
        try:
            steps = self._steps
            if steps is not None and steps is not asyncio.current_task():
                await asyncio.wait([steps], timeout=CLOSE_MS / 1000)
                steps.cancel()
            if self.driver.failure is None and self.driver.refusal is None:
                await self._leave_now(reason)
        finally:
            self.driver.stop()

    async def _leave_now(self, reason: str) -> None:
        ends_ms = self.now_ms() + CLOSE_MS
        self.engine.settle()
        self.engine.close(reason, self.now_ms())
        while self.now_ms() < ends_ms and self.driver.failure is None:
            while self.engine.next_callback(self.now_ms()) is not None:
                continue
            self.driver.run()
            if self.driver.has_left:
                return
            await self.wait(50)

    async def _run_steps(self) -> None:
        try:
            while (callback := await self._next_callback()) is not None:
                await self.notifier.call(*callback)
        finally:
            self._steps = None
        self._is_leaving = False
        then, self._then = self._then, None
        if then is not None:
            then()
        self._end_waits()
        self.driver.wake()

    async def _next_callback(self) -> Callback | None:
        """The next one, when the steps before it are over."""
        while not self.is_stopped:
            self.engine.settle()
            callback = self.engine.next_callback(self.now_ms())
            self.driver.wake()
            if callback is not None:
                if callback.kind == ASSIGNED:
                    # A listener may ask for positions, which are looked up once partitions are ready.
                    for state in self.engine.subscriptions.partitions.values():
                        state.is_ready = True
                return callback
            if not self.engine.rebalances.is_active:
                return None
            await self.wait()
        return None

    def _end_waits(self) -> None:
        for waiter in self._waiters:
            _end(waiter)


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
