"""Signals whose handlers raise, as that of Ctrl-C does, or call the consumer, at any moment of a call: nothing is lost, held or stuck."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from ottla import Consumer, Message, TopicPartition
from ottla.testing import Broker

RECORDS: Final = 5_000


class Interrupt(BaseException):
    """What the handler raises."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as made:
        made.create_topic("t", 2)
        for partition in range(2):
            made.produce("t", [b"%d" % number for number in range(RECORDS)], partition=partition)
        yield made


def config(broker: Broker, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 20,
        "retry.backoff.ms": 5,
    }


class Application:
    """Calls of a consumer, some of which are interrupted. `following`: of each partition the offset that has to come next."""

    def __init__(self, consumer: Consumer, rng: random.Random) -> None:
        self.consumer = consumer
        self.following = {0: 0, 1: 0}
        self.interrupts = 0
        self.is_called = False
        self._rng = rng

    def poll(self) -> None:
        message = self.consumer.poll(1)
        self.is_called = False
        self._got([] if message is None else [message])

    def consume(self) -> None:
        messages = self.consumer.consume(3, 1)
        self.is_called = False
        self._got(messages)

    def commit(self) -> None:
        self.consumer.commit()

    def commit_and_wait(self) -> None:
        if any(self.following.values()):
            for each in self.consumer.commit(asynchronous=False, offsets=self.offsets()) or []:
                assert each.error is None

    def offsets(self) -> list[TopicPartition]:
        return [TopicPartition("t", *each) for each in self.following.items()]

    def _got(self, messages: list[Message]) -> None:
        for message in messages:
            assert message.error() is None
            partition = message.partition() or 0
            assert message.offset() == self.following[partition], "records come in order, none is left out or twice"
            self.following[partition] += 1

    def handle(self) -> None:
        """What the handler does: mostly it raises."""
        self.interrupts += 1
        if self._rng.random() < 0.8:
            self.is_called = False
            raise Interrupt
        self.consumer.commit()
        assert [max(each.offset, 0) for each in self.consumer.position(self.offsets())] == list(self.following.values())

    def interrupted(self, call: Callable[[], None], moments: int) -> None:
        """Interrupt a call where it makes a call itself for the n-th time, or where one returns: there, Python runs handlers of signals."""

        def count(frame: Any, event: str, _: Any) -> None:
            nonlocal moments
            if event in ("call", "c_return") and self.is_called:
                moments -= 1
                if moments < 0:
                    sys.setprofile(None)
                    self.handle()

        self.is_called = True
        sys.setprofile(count)
        try:
            call()
        except Interrupt:
            return
        finally:
            sys.setprofile(None)

    def signalled(self, call: Callable[[], None], seconds: float) -> None:
        """Interrupt a call by a signal after so many seconds, if it takes as long."""

        def interrupt(*_: Any) -> None:
            if self.is_called:
                self.handle()

        before = signal.signal(signal.SIGALRM, interrupt)
        self.is_called = True
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
        except Interrupt:
            return
        finally:
            self.is_called = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def committed(consumer: Consumer) -> dict[int, int]:
    return {each.partition: max(each.offset, 0) for each in consumer.committed([TopicPartition("t", 0), TopicPartition("t", 1)], 30)}


@pytest.mark.parametrize(("how", "count"), [("moments", 1_700), ("signals", 300)])
def test_interrupts_at_two_thousand_moments(broker: Broker, how: str, count: int) -> None:
    rng = random.Random(24)
    consumer = Consumer(config(broker, how))
    application = Application(consumer, rng)
    calls = [application.poll, application.poll, application.consume, application.commit, application.commit_and_wait]
    consumer.subscribe(["t"])
    while application.interrupts < count:
        call = rng.choice(calls)
        if how == "moments":
            application.interrupted(call, rng.randrange(rng.choice([4, 12, 60])))
        else:
            application.signalled(call, rng.choice([0.00001, 0.0001, 0.001]) * rng.uniform(0.5, 2))
        if application.interrupts % 100 == 0:
            found = committed(consumer)
            assert all(found[partition] <= offset for partition, offset in application.following.items()), "only what was handed out"
    assert sum(application.following.values()) < 2 * RECORDS
    before = dict(application.following)
    begun = time.monotonic()
    consumer.close()
    assert time.monotonic() - begun < 5
    with Consumer(config(broker, how)) as other:
        assert committed(other) == before, "the last commit has all that was handed out, and no more"


def test_interrupts_of_close(broker: Broker) -> None:
    """Each moment of it; the interrupted call has ended the consumer's threads, or the next one does."""
    before = set(threading.enumerate())
    for moments in range(0, 120, 3):
        consumer = Consumer(config(broker, "close"))
        application = Application(consumer, random.Random(24))
        consumer.assign([TopicPartition("t", 0, 0)])
        interrupts = application.interrupts
        application.interrupted(consumer.close, moments)
        begun = time.monotonic()
        consumer.close()
        assert time.monotonic() - begun < 5
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.poll(0)
        if application.interrupts == interrupts:
            break
    assert moments > 10
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread


def test_a_handler_that_closes_ends_the_call_that_waits(broker: Broker) -> None:
    consumer = Consumer(config(broker, "handler"))
    consumer.assign([TopicPartition("t", 0, RECORDS)])
    before = signal.signal(signal.SIGALRM, lambda *_: consumer.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.poll(60)
    finally:
        signal.signal(signal.SIGALRM, before)


FIRST_SECOND: Final = """
import signal, sys
from ottla import Consumer, TopicPartition
from ottla.client.consumer import decoding

raised = caught = following = 0
is_called = False

def interrupt(*_):
    global is_called, raised
    if is_called:
        is_called = False
        raised += 1
        raise KeyboardInterrupt

consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "first", "enable.auto.commit": False})
consumer.assign([TopicPartition("t", 0, 0)])
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
while following < int(sys.argv[2]) or decoding.DECODER._compiled is None:
    try:
        is_called = True
        message = consumer.poll(0.1)
        is_called = False
    except KeyboardInterrupt:
        caught += 1
        continue
    if message is not None:
        assert message.offset() == following, message
        following += 1
signal.setitimer(signal.ITIMER_REAL, 0)
consumer.close()
print(raised, caught)
"""


def test_no_interrupt_vanishes_while_the_compiled_decoder_is_loaded(broker: Broker) -> None:
    command = [sys.executable, "-c", FIRST_SECOND, broker.bootstrap_servers, str(RECORDS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    raised, caught = map(int, ran.stdout.split())
    assert raised == caught > 20
    assert not ran.stderr
