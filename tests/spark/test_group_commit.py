"""Spark keeps its offsets itself, and also commits them to a group, so that tools that show the lag of groups see the query.

Our source does it by the option `group.id`, a query on the JVM connector by a listener; both on our broker and on Apache Kafka.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient as Admin
from confluent_kafka.admin import NewTopic

from ottla.client.admin.client import AdminClient
from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition
from ottla.spark.group.committer import GroupCommitter
from ottla.spark.group.listeners import GroupCommitListener
from ottla.testing.waiting import wait_until
from tests.support.kit.waiting import rest

PARTITIONS = 3
WAIT_S_MAX = 60


class Shop:
    """A topic, of whose partitions the last stays empty, and a group."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self.servers, self.topic, self.group = servers, topic, group
        self._admin = Admin({"bootstrap.servers": servers, "log_level": 0})
        self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True})
        self._tool = AdminClient(servers)

    def sell(self, count: int) -> None:
        for number in range(count):
            self._producer.produce(self.topic, b"%d" % number, partition=number % (PARTITIONS - 1))
        assert self._producer.flush(60) == 0

    def lag(self) -> dict[int, int]:
        """Records by partition that the group has not read, as tools count them; partitions without a commit are left out."""
        committed = self._tool.committed([self.group])[self.group]
        assert isinstance(committed, Mapping), committed
        ends = self._tool.list_offsets(committed, -1)
        return {partition.partition: ends[partition] - each.offset for partition, each in committed.items()}

    def close(self) -> None:
        self._tool.close()


@pytest.fixture
def shop(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Shop]:
    made = Shop(kafka_broker.bootstrap_servers, unique_name("orders"), unique_name("shop"))
    yield made
    made.close()


def _stream(spark: Any, kind: str, shop: Shop, **options: str) -> Any:
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", shop.servers).option("subscribe", shop.topic)
    return reader.options(**{"startingOffsets": "earliest", **options}).load()


def _run_available(frame: Any, checkpoint: Path) -> list[Any]:
    """A run of what is there; gives the progress of its batches."""
    query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S_MAX)
    return list(query.recentProgress)


def _rows(progress: list[Any]) -> int:
    return sum(each.numInputRows for each in progress)


class BatchBlocker:
    """A batch goes through when it is opened: until then its records are read, and not processed."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def pass_batch(self, frame: Any, batch: int) -> None:
        if frame.count():
            self.has_begun.set()
            assert self.may_end.wait(WAIT_S_MAX)


def _lag_while_it_stands(frame: Any, shop: Shop, checkpoint: Path) -> None:
    """The group's lag is true before a batch, in it, and after it, while nothing new comes."""
    blocker = BatchBlocker()
    writer = frame.writeStream.foreachBatch(blocker.pass_batch).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        shop.sell(4)
        assert blocker.has_begun.wait(WAIT_S_MAX)
        assert sum(shop.lag().values()) == 4, "read is not processed"
        blocker.may_end.set()
        wait_until(lambda: shop.lag() == {0: 0, 1: 0, 2: 0}, "an idle query has no lag", rest, seconds=WAIT_S_MAX)
    finally:
        blocker.may_end.set()
        query.stop()


def test_lag_tools_see_a_query_of_the_source(spark: Any, shop: Shop, tmp_path: Path):
    shop.sell(10)
    ours = _stream(spark, "ottla", shop, **{"group.id": shop.group})
    progress = _run_available(ours, tmp_path / "first")
    assert _rows(progress) == 10
    assert shop.lag() == {0: 0, 1: 0, 2: 0}, "the last batch of an AvailableNow run is committed, empty partitions too"
    metrics = json.loads(progress[-1].sources[0].latestOffset)["#group_commit"]
    assert (metrics["group"], metrics["failures"], metrics["last_error"]) == (shop.group, 0, "")

    shop.sell(6)
    assert sum(shop.lag().values()) == 6
    successor = _stream(spark, "ottla", shop, **{"group.id": shop.group, "startingOffsets": "group"})
    assert _rows(_run_available(successor, tmp_path / "second")) == 6, "a new query continues where the group is"
    assert shop.lag() == {0: 0, 1: 0, 2: 0}
    _lag_while_it_stands(successor, shop, tmp_path / "second")
    batch = spark.read.format("ottla").option("kafka.bootstrap.servers", shop.servers).option("subscribe", shop.topic)
    shop.sell(2)
    assert batch.options(**{"group.id": shop.group, "startingOffsets": "group"}).load().count() == 2


def test_lag_tools_see_a_query_of_the_jvm_connector_by_the_listener(spark: Any, shop: Shop, tmp_path: Path, jvm_format: str):
    listener = GroupCommitListener(shop.servers, {"another-topic": "another-group", shop.topic: shop.group})
    spark.streams.addListener(listener)
    try:
        shop.sell(10)
        jvm = _stream(spark, jvm_format, shop)
        assert _rows(_run_available(jvm, tmp_path / "checkpoint")) == 10
        wait_until(lambda: shop.lag() == {0: 0, 1: 0, 2: 0}, "the listener commits the last batch too", rest, seconds=WAIT_S_MAX)
        _lag_while_it_stands(jvm, shop, tmp_path / "checkpoint")
        assert [(each["group"], each["failures"]) for each in listener.metrics()] == [(shop.group, 0)] * 2
    finally:
        spark.streams.removeListener(listener)


def test_a_group_with_members_refuses_offsets_until_they_leave(shop: Shop):
    shop.sell(2)
    member = Consumer({"bootstrap.servers": shop.servers, "group.id": shop.group, "auto.offset.reset": "earliest", "log_level": 0})
    member.subscribe([shop.topic])
    wait_until(lambda: member.poll(0.1), "the member is in its group", seconds=WAIT_S_MAX)
    seconds = [0.0]
    committer = GroupCommitter(ClientSettings(bootstrap_servers=shop.servers), shop.group, clock=lambda: seconds[0])
    place = TopicPartition(shop.topic, 0)
    committer.offer({place: 1})
    assert (committer.metrics()["failures"], committer.metrics()["commits"]) == (1, 0)
    assert "has members, and accepts offsets from them only" in str(committer.metrics()["last_error"])
    member.close()
    seconds[0] += 60
    committer.offer({place: 1})
    committer.close()
    assert (committer.metrics()["failures_in_row"], committer.metrics()["commits"]) == (0, 1)
    assert shop.lag()[0] == 0
