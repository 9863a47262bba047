"""`ottla assign` of a real group, on both brokers."""

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Consumer

from ottla.cli.main import main
from ottla.testing.waiting import wait_until


def test_the_assignment_of_a_group_and_what_other_assignors_would_give(
    kafka_broker: Any, library_on: Any, unique_name: Callable[[str], str]
) -> None:
    topic, group = unique_name("topic"), unique_name("group")
    library_on(kafka_broker).create_topic(topic, 3)
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "client.id": "reader", "client.rack": "here"}
    consumer = Consumer(settings | {"log_level": 0, "partition.assignment.strategy": "range"})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.05) or consumer.assignment(), "an assignment")
        found = CliRunner().invoke(main, ["assign", "--bootstrap-server", kafka_broker.bootstrap_servers, "--group", group, "--json"])
    finally:
        consumer.close()
    assert found.exit_code == 0, found.output
    document = json.loads(found.output)
    (member,) = document["state"]["members"]
    assert (member["topics"], member["owned"]) == ([topic], {topic: [0, 1, 2]})
    assert document["state"]["topics"] == {topic: 3}
    assert {(each["name"], each["owned"], len(each["moves"])) for each in document["assignors"]} == {
        (name, 3, 0) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    }
