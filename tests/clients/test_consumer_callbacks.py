"""error_cb, throttle_cb, stats_cb, logger and debug of `ottla.Consumer`, beside those of confluent-kafka."""

import json
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

import ottla
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

OPEN = {"brokers", "topics", "partitions", "req", "toppars"}
"""Objects whose keys are names."""


def poll_until(consumer: Any, condition: Callable[[], Any], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        consumer.poll(0.1)


def statistics_of(module: Any, broker: Any, group: str, topic: str) -> dict[str, Any]:
    """Statistics of a member that has read all and committed it."""
    found: list[dict[str, Any]] = []
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "statistics.interval.ms": 200,
        "stats_cb": lambda text: found.append(json.loads(text)),
    }
    consumer = module.Consumer(config)
    consumer.subscribe([topic])
    records = 0
    ends = time.monotonic() + 60
    while records < 3:
        assert time.monotonic() < ends
        message = consumer.poll(0.2)
        records += message is not None and message.error() is None
    consumer.commit(asynchronous=False)

    def is_read() -> bool:
        partitions = found[-1]["topics"].get(topic, {}).get("partitions", {}) if found else {}
        return partitions.get("0", {}).get("committed_offset") == 3

    poll_until(consumer, is_read)
    consumer.close()
    return found[-1]


def missing(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Fields of ours that are not among theirs, or have values of another type."""
    if not isinstance(ours, dict):
        return [] if type(ours) is type(theirs) else [f"{at}: {ours!r}, not {theirs!r}"]
    if at.rpartition(".")[2] in OPEN:
        return [line for value in ours.values() for line in missing(value, next(iter(theirs.values())), f"{at}.*")] if theirs else []
    names = [f"{at}.{name}" for name in ours if name not in theirs]
    return names + [line for name in ours if name in theirs for line in missing(ours[name], theirs[name], f"{at}.{name}")]


def test_statistics_are_librdkafkas(kafka_broker: Any, unique_name: Callable[[str], str], library_on: Callable[..., Any]) -> None:
    topic = unique_name("statistics")
    library = library_on(kafka_broker)
    library.create_topic(topic, 1)
    library.produce(topic, [(0, b"value")] * 3)
    ours, theirs = (statistics_of(module, kafka_broker, unique_name("group"), topic) for module in (ottla, confluent_kafka))
    assert missing(ours, theirs) == []
    assert set(missing(theirs, ours)) == {".topics.*.partitions.*.rxbytes"}
    fields = (
        "app_offset",
        "stored_offset",
        "committed_offset",
        "hi_offset",
        "lo_offset",
        "ls_offset",
        "consumer_lag",
        "consumer_lag_stored",
    )
    mine, other = (each["topics"][topic]["partitions"]["0"] for each in (ours, theirs))
    assert {name: mine[name] for name in (*fields, "rxmsgs", "leader", "fetch_state")} == {
        name: other[name] for name in (*fields, "rxmsgs", "leader", "fetch_state")
    }
    assert {name: ours["cgrp"][name] for name in ("state", "join_state", "assignment_size", "rebalance_cnt")} == {
        name: theirs["cgrp"][name] for name in ("state", "join_state", "assignment_size", "rebalance_cnt")
    }
    assert ours["rxmsgs"] == 3
    broker = next(each for each in ours["brokers"].values() if each["nodeid"] >= 0)
    assert (broker["state"], broker["source"]) == ("UP", "learned")
    assert broker["tx"] >= broker["rx"] > 0 < broker["rtt"]["cnt"]
    assert ours["cgrp"]["rebalance_reason"].startswith("need to re-join")
    assert 0 < broker["rtt"]["min"] <= broker["rtt"]["p50"] <= broker["rtt"]["p99"] <= broker["rtt"]["max"]


def test_statistics_count_what_waits_for_the_application(
    kafka_broker: Any, unique_name: Callable[[str], str], new_topic: Callable[..., str]
) -> None:
    topic, found = new_topic(1, 3), [{"fetchq_cnt": 0}]
    config = {
        "bootstrap.servers": kafka_broker.bootstrap_servers,
        "group.id": unique_name("group"),
        "statistics.interval.ms": 20,
        "stats_cb": lambda text: found.append(json.loads(text)["topics"][topic]["partitions"]["0"]),
    }
    with ottla.Consumer(config) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, 0)])
        wait_until(lambda: found[-1]["fetchq_cnt"] == 3, "three records are fetched", lambda: consumer.consume(0, 0.05))
        assert (found[-1]["app_offset"], found[-1]["next_offset"]) == (0, 3)


@pytest.mark.parametrize("module", [ottla, confluent_kafka], ids=lambda module: module.__name__)
def test_brokers_that_cannot_be_reached(module: Any) -> None:
    errors: list[Any] = []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "error_cb": errors.append, "log_level": 0}
    consumer = module.Consumer(config)
    consumer.subscribe(["t"])
    poll_until(consumer, lambda: len({each.code() for each in errors}) > 1)
    consumer.close()
    assert {each.code() for each in errors} == {module.KafkaError._TRANSPORT, module.KafkaError._ALL_BROKERS_DOWN}
    assert f"127.0.0.1:{port}/bootstrap: " in next(each.str() for each in errors if each.code() == module.KafkaError._TRANSPORT)
    assert next(each.str() for each in errors if each.code() == module.KafkaError._ALL_BROKERS_DOWN) == "1/1 brokers are down"


@pytest.mark.kafka
def test_a_quota_delays_responses(reference: Any, unique_name: Callable[[str], str], library_on: Callable[..., Any]) -> None:
    broker, topic = reference.shared(), unique_name("quota")
    library = library_on(broker)
    library.create_topic(topic, 1)
    library.produce(topic, [(0, bytes(2_000))] * 10)

    def throttled(module: Any) -> Any:
        client_id = unique_name("slow")
        quota = {
            "entity": [{"entity_type": "client-id", "entity_name": client_id}],
            # A little less than the topic has, in the ten seconds over which Kafka measures: it delays by less than a second.
            "ops": [{"key": "consumer_byte_rate", "value": 1_900.0, "remove": False}],
        }
        with RawClient(broker.bootstrap_servers) as client:
            (entry,) = client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[quota], validate_only=False).entries
        assert entry.error_code == 0, entry.error_message
        events: list[Any] = []
        config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": client_id, "throttle_cb": events.append}
        consumer = module.Consumer(config)
        consumer.assign([module.TopicPartition(topic, 0, 0)])
        poll_until(consumer, lambda: any(each.throttle_time > 0 for each in events))
        consumer.close()
        return next(each for each in events if each.throttle_time > 0)

    ours, theirs = (throttled(module) for module in (ottla, confluent_kafka))
    assert (ours.broker_id, ours.broker_name) == (theirs.broker_id, theirs.broker_name)
    assert 0 < ours.throttle_time < 10


def test_what_a_callback_raises_is_raised_by_poll() -> None:
    def fail(error: Any) -> None:
        raise RuntimeError(error.name())

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ottla.Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "error_cb": fail}) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(RuntimeError, match="_TRANSPORT"):
            poll_until(consumer, lambda: False)


def test_lines_go_to_the_logger(unique_name: Callable[[str], str], kafka_broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": unique_name("group"), "socket.max.fails": 3}
    mine = logging.getLogger("of-the-program")
    with caplog.at_level(logging.DEBUG), ottla.Consumer(config | {"debug": "cgrp,broker"}, logger=mine) as consumer:
        consumer.subscribe([unique_name("topic")])
        consumer.poll(0)
        wait_until(lambda: any("FindCoordinator" in line for line in caplog.messages), "FindCoordinator is in the log")
    lines = [(record.name, record.levelno, record.getMessage()) for record in caplog.records if "ottla" not in record.name]
    assert {name for name, _, _ in lines} == {"of-the-program"}
    assert "properties without effect here: socket.max.fails" in lines[0][2]
    assert any(level == logging.DEBUG and line.endswith("connected") for _, level, line in lines)
    assert not any("Metadata" in line for _, _, line in lines)
