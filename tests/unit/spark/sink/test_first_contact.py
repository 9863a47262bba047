"""The first contact of the sink with its brokers, over sockets; which tasks make it, without Spark."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.client.deadlines import NoBrokerReachedError
from ottla.spark.sink.first_contact import is_first_micro_batch, parse_first_contact
from ottla.testing.clients.topics import create_topic


def options(servers: str, **more: str) -> Mapping[str, str]:
    return {"Kafka.Bootstrap.Servers": servers, "kafka.linger.ms": "5", "topic": "t", **more}


def test_a_broker_that_cannot_be_reached_is_named_in_the_time_that_was_set():
    contact = parse_first_contact(options("localhost:1", **{"kafka.max.block.ms": "100"}), "t", 100)
    with pytest.raises(NoBrokerReachedError, match=r"no broker of bootstrap\.servers was reached in 100 ms .*broker localhost:1: "):
        contact.check()
    assert parse_first_contact(options("localhost:1"), "t", 60_000).timeout_ms == 5_000


def test_a_topic_that_is_there_one_that_is_missing_and_none_are_accepted():
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t", 2)
        for topic in ("t", "missing", None):
            parse_first_contact(options(broker.bootstrap_servers), topic, 60_000).check()


@pytest.mark.parametrize(("batch_id", "is_first"), [("0", True), ("1", False), (None, False)])
def test_the_first_micro_batch_of_a_stream(batch_id: str | None, is_first: bool):
    context: Any = SimpleNamespace(getLocalProperty={"streaming.sql.batchId": batch_id}.get)
    assert is_first_micro_batch(context) is is_first
    assert not is_first_micro_batch(None)
