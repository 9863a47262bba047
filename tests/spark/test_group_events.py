"""From real clients in a real group on Ottla's broker to the table of its rebalances."""

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker import Broker
from ottla.groups.events import GroupEvent
from ottla.history.group_history import histories_of_events
from ottla.spark.pipelines import pipelines
from ottla.spark.runner.pipeline_run import run_on_cluster

SECONDS_MAX = 20


def _consumer(servers: str, name: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "readers", "client.id": name, "heartbeat.interval.ms": 200, "log_level": 0}
    )
    consumer.subscribe(["flights"])
    return consumer


def _poll_until(consumers: list[Consumer], counts: list[int]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while sorted(len(consumer.assignment()) for consumer in consumers) != counts:
        assert time.monotonic() < end, f"no assignment of {counts} after {SECONDS_MAX} s"
        for consumer in consumers:
            consumer.poll(0.05)


def test_scale_out_and_in_as_a_table(spark: Any, tmp_path: Path):
    events: list[GroupEvent] = []
    with Broker(on_group_event=events.append) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("flights", 6, 1)])["flights"].result(60)
        first = _consumer(servers, "one")
        _poll_until([first], [6])
        second = _consumer(servers, "two")
        _poll_until([first, second], [3, 3])
        second.close()
        _poll_until([first], [6])
        first.close()
        tables = run_on_cluster(spark, pipelines()["rebalances"], bootstrap_servers=servers, directory=str(tmp_path))

    rows = tables["rebalances"].orderBy("started_at", "generation").collect()
    assert [(row.trigger, row.outcome, row.members_before, row.members_after) for row in rows] == [
        ("JOIN_NEW", "completed", 0, 1),
        ("JOIN_NEW", "completed", 1, 2),
        ("LEAVE", "completed", 2, 1),
        ("LEAVE", "emptied", 1, 0),
    ]
    assert [row.partitions_moved for row in rows] == [0, 3, 3, None]
    (history,) = histories_of_events(events).values()
    assert [row.generation for row in rows] == [found.generation for found in history.generations()]
    assert (tmp_path / "rebalances" / "_SUCCESS").exists()
