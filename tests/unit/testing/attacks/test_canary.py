"""The canary measures the longest wait, also of an answer that has not come yet."""

import time

from ottla.broker import Broker
from ottla.testing.attacks.canary import Canary, Waiting
from ottla.testing.clients.topics import create_topic


def test_an_answer_that_has_not_come_counts() -> None:
    waiting = Waiting()
    waiting.asked("Fetch")
    time.sleep(0.01)
    first = waiting.read()
    assert first.worst_ms >= 10
    assert (first.request, first.answered) == ("Fetch", 0)
    waiting.answered()
    assert waiting.read().answered == 1
    assert waiting.read() == (0.0, "", 0)


def test_it_asks_a_real_broker() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "canary")
        with Canary(broker.bootstrap_servers, "canary") as canary:
            waits = canary.read()
            while waits.answered < 3:
                waits = canary.read()
    assert waits.worst_ms > 0
    assert waits.request in ("Produce", "Fetch", "Metadata")
