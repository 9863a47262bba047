"""Streaming queries as members of a group (`ottla.group.mode` = `member`): they share partitions and take over from each other."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import ottla
from ottla.client.admin.client import AdminClient
from ottla.spark.group.listeners import GroupMemberListener, member_progress
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from tests.support.kit.waiting import rest

PARTITIONS = 4
WAIT_S_MAX = 90
Place = tuple[int, int]


class Flights:
    """A topic and a group."""

    def __init__(self, servers: str, topic: str, group: str) -> None:
        self.servers, self.topic, self.group = servers, topic, group
        create_topic(servers, topic, PARTITIONS)
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True})
        self.admin = AdminClient(servers)
        self.written = 0

    def write(self, count: int) -> None:
        """So many records in each partition."""
        for number in range(count * PARTITIONS):
            self._producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        assert self._producer.flush(20) == 0
        self.written += count

    def places(self) -> set[Place]:
        return {(partition, offset) for partition in range(PARTITIONS) for offset in range(self.written)}

    def committed(self) -> dict[int, int]:
        found = self.admin.committed([self.group])[self.group]
        assert isinstance(found, dict)
        return {place.partition: each.offset for place, each in found.items()}

    def stream(self, spark: Any, **options: str) -> Any:
        given = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "group.id": self.group,
            "ottla.group.mode": "member",
            "kafka.auto.offset.reset": "earliest",
            **({} if "kafka.group.protocol" in options else {"kafka.heartbeat.interval.ms": "300"}),
            **options,
        }
        return spark.readStream.format("ottla").schema("partition int, offset bigint").options(**given).load()


@pytest.fixture
def flights(kafka_broker: Any, unique_name: Callable[[str], str]) -> Iterator[Flights]:
    made = Flights(kafka_broker.bootstrap_servers, unique_name("flights"), unique_name("members"))
    yield made
    made.admin.close()


class Table:
    """What a query has processed, with the number of times."""

    def __init__(self) -> None:
        self.rows: Counter[Place] = Counter()

    def add(self, frame: Any, batch: int) -> None:
        self.rows.update((row["partition"], row["offset"]) for row in frame.collect())


def start(frame: Any, table: Table, checkpoint: Path, **trigger: Any) -> Any:
    writer = frame.writeStream.foreachBatch(table.add).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "250 milliseconds"})).start()


def owned(query: Any, topic: str) -> list[int]:
    """The partitions that a query owned at its last trigger with progress."""
    assert query.isActive, query.exception()
    progress = query.lastProgress
    rows = [] if progress is None else member_progress(progress)
    return rows[0].owned.get(topic, []) if rows else []


def last_owned(listener: GroupMemberListener, query: Any) -> list[int]:
    """The partitions of a query's newest row."""
    rows = [row for row in listener.rows() if row.query == str(query.id)]
    return next(iter(rows[-1].owned.values()), []) if rows else []


def test_two_queries_share_the_partitions_and_take_over(spark: Any, flights: Flights, tmp_path: Path) -> None:
    tables = Table(), Table()
    listener = GroupMemberListener()
    spark.streams.addListener(listener)
    frames = [flights.stream(spark, **{"kafka.client.id": f"query-{number}"}) for number in range(2)]
    queries = [start(frames[0], tables[0], tmp_path / "0")]
    try:
        flights.write(5)
        wait_until(lambda: tables[0].rows.keys() == flights.places(), "one query has all", rest, seconds=WAIT_S_MAX)
        queries.append(start(frames[1], tables[1], tmp_path / "1"))

        def is_shared() -> bool:
            flights.write(1)  # progress shows what is owned when there are records
            shares = [owned(query, flights.topic) for query in queries]
            return [len(share) for share in shares] == [2, 2] and not set(shares[0]) & set(shares[1])

        wait_until(is_shared, "each query has a half", rest, seconds=WAIT_S_MAX)
        queries[0].stop()
        flights.write(2)
        wait_until(
            lambda: tables[0].rows.keys() | tables[1].rows.keys() == flights.places(),
            "the other query continues with all",
            rest,
            seconds=WAIT_S_MAX,
        )
        ends = dict.fromkeys(range(PARTITIONS), flights.written)
        wait_until(lambda: flights.committed() == ends, "all is committed", rest, seconds=WAIT_S_MAX)
        wait_until(
            lambda: last_owned(listener, queries[1]) == list(range(PARTITIONS)), "the listener has the last batch", rest, seconds=WAIT_S_MAX
        )
    finally:
        for query in queries:
            query.stop()
        spark.streams.removeListener(listener)
    assert set(tables[1].rows.values()) == {1}, "a query that is not interrupted processes nothing twice"
    rows = listener.frame(spark).where(f"query = '{queries[1].id}'").orderBy("batch_id").collect()
    assert rows[-1]["owned"].keys() == {flights.topic}
    assert (rows[-1]["group"], rows[-1]["failures"]) == (flights.group, 0)
    assert rows[-1]["rebalances"] >= 2


def test_available_now_continues_where_the_group_is(spark: Any, flights: Flights, tmp_path: Path) -> None:
    flights.write(5)
    table = Table()
    for _ in range(2):
        query = start(flights.stream(spark), table, tmp_path / "checkpoint", availableNow=True)
        assert query.awaitTermination(WAIT_S_MAX)
        assert table.rows == Counter(flights.places())
        assert flights.committed() == dict.fromkeys(range(PARTITIONS), flights.written)
        flights.write(2)
    config = {"bootstrap.servers": flights.servers, "group.id": flights.group, "enable.auto.commit": False, "heartbeat.interval.ms": 300}
    consumer = ottla.Consumer(config)
    consumer.subscribe([flights.topic])
    found: list[Any] = []
    while len(found) < 2 * PARTITIONS:
        found += consumer.consume(100, 0.2)
    assert {(each.partition(), each.offset()) for each in found} == {(number, offset) for number in range(PARTITIONS) for offset in (7, 8)}
    consumer.commit(offsets=[ottla.TopicPartition(flights.topic, number, 8) for number in range(PARTITIONS)], asynchronous=False)
    consumer.close()
    query = start(flights.stream(spark), table, tmp_path / "checkpoint", availableNow=True)
    assert query.awaitTermination(WAIT_S_MAX)
    assert {place for place in flights.places() if place not in table.rows} == {(number, 7) for number in range(PARTITIONS)}
    assert flights.committed()[0] == 9


def test_a_query_of_the_consumer_protocol_shares_with_a_plain_consumer(spark: Any, flights: Flights, tmp_path: Path) -> None:
    """KIP-848: the broker assigns, by heartbeats; what the query gives up is committed before the other one reads on."""
    table = Table()
    query = start(flights.stream(spark, **{"kafka.group.protocol": "consumer"}), table, tmp_path / "checkpoint")
    consumer = ottla.Consumer(
        {
            "bootstrap.servers": flights.servers,
            "group.id": flights.group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    found: Counter[Place] = Counter()

    def poll() -> None:
        messages = [each for each in consumer.consume(100, 0.2) if each.error() is None]
        found.update((int(each.partition() or 0), int(each.offset() or 0)) for each in messages)
        if messages:
            consumer.commit(asynchronous=False)

    try:
        flights.write(5)
        wait_until(lambda: table.rows.keys() == flights.places(), "the query has all", rest, seconds=WAIT_S_MAX)
        consumer.subscribe([flights.topic])
        wait_until(lambda: len(consumer.assignment()) == 2, "the consumer has a half", poll, seconds=WAIT_S_MAX)
        flights.write(3)
        wait_until(lambda: table.rows.keys() | found.keys() == flights.places(), "both read", poll, seconds=WAIT_S_MAX)
        assert found
        assert owned(query, flights.topic) == sorted(set(range(PARTITIONS)) - {each.partition for each in consumer.assignment()})
        consumer.close()
        flights.write(1)
        wait_until(
            lambda: {place for place in flights.places() if place not in found} <= table.rows.keys(),
            "the query goes on with all",
            rest,
            seconds=WAIT_S_MAX,
        )
        ends = dict.fromkeys(range(PARTITIONS), flights.written)
        wait_until(lambda: flights.committed() == ends, "all is committed", rest, seconds=WAIT_S_MAX)
    finally:
        query.stop()
    assert set((table.rows + found).values()) == {1}, "nothing is processed twice"
