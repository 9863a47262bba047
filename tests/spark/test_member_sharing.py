"""Streaming queries that are members of their group share its partitions: with each other, and with a consumer that knows nothing of Spark.

Two queries of one session are two members, each with a process of its own that plans: what is killed here is that process. `make sharing`
kills whole drivers, and lets members come and go for longer.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.protocol.wire.consumer_protocol import parse_assignment
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from tests.support.kit.waiting import rest
from tests.support.processes import command_line, kill_tree, process_tree
from trials.harness.ledger import Ledger
from trials.harness.oracle import invented, wrong_rows
from trials.harness.world import Program
from trials.kills.plain_member import PlainJob
from trials.kills.tables import KeyedResult, KeyedTable
from trials.kills.world import PLANNER

PARTITIONS = 12
SESSION_MS = 300_000
"""Of members that are not killed: no machine is so slow that one of them loses its partitions, or is not back in time."""
WAIT_S_MAX = 90


class Share:
    """A topic of 12 partitions into which records are written, and a group; each member has a table in a folder of its own."""

    def __init__(self, spark: Any, servers: str, topic: str, directory: Path) -> None:
        self.servers, self.topic, self.group = servers, topic, f"{topic}-group"
        self._spark = spark
        self._directory = directory
        self._queries: list[Any] = []
        self._programs: list[Program] = []
        self._admin = AdminClient(servers)
        create_topic(servers, topic, PARTITIONS)
        self.ledger = Ledger(servers, topic, PARTITIONS)
        self.ledger.start()

    def query(self, name: str, **options: str) -> Any:
        """A query that is a member; with the same name again, it continues."""
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        every = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "group.id": self.group,
            "ottla.group.mode": "member",
            "kafka.auto.offset.reset": "earliest",
            "kafka.session.timeout.ms": str(SESSION_MS),
            "kafka.heartbeat.interval.ms": "200",
        }
        table = KeyedTable(directory)
        reader = self._spark.readStream.format("ottla").schema("topic string, partition int, offset bigint, value binary")
        rows = reader.options(**{**every, **options}).load().selectExpr("topic", "partition", "offset", "cast(value as string)")
        writer = rows.writeStream.foreachBatch(lambda batch, _: table.write(batch.collect()))
        writer = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(processingTime="250 milliseconds")
        self._queries.append(writer.start())
        return self._queries[-1]

    def consumer(self, name: str, assignor: str) -> Program:
        """A plain consumer that is a member, as a program; not started yet."""
        job = PlainJob(self.servers, self.topic, self.group, str(self._directory / name), assignor, str(SESSION_MS), "1000")
        command = [sys.executable, "-m", "trials.kills.plain_member", *job]
        self._programs.append(Program(self._directory / name, command))
        return self._programs[-1]

    def wait_for_shares(self, *shares: int) -> None:
        """Wait until the group is stable, with members that own so many partitions each."""
        wait_until(
            lambda: sorted(len(each) for each in self._owned().values()) == sorted(shares), self._described, rest, seconds=WAIT_S_MAX
        )

    def wait_until_processed(self) -> None:
        """Wait until the group has committed everything that is written by now."""
        ends = self.ledger.ends()

        def is_processed() -> bool:
            committed = self._committed()
            return all(committed.get(each, 0) >= end for each, end in ends.items())

        wait_until(is_processed, self._described, rest, seconds=WAIT_S_MAX)

    def wait_for_generation(self, query: Any) -> int:
        """The generation in which the query plans its next batches."""
        known = _last_batch(query)
        wait_until(lambda: _last_batch(query) > known + 1 and _generation(query), self._described, rest, seconds=WAIT_S_MAX)
        return _generation(query)

    def wrong(self) -> list[str]:
        """End the writing, wait until everything is processed; what is wrong in the tables of all members."""
        self.ledger.close()
        self.wait_until_processed()
        rows = self.result().rows()
        acknowledged = self.ledger.acknowledged
        return self.ledger.failures + wrong_rows(acknowledged, rows, self.ledger.ends()) + invented(acknowledged, rows)

    def result(self) -> KeyedResult:
        """The tables of all members."""
        return KeyedResult([path for path in self._directory.iterdir() if path.is_dir()], self.topic, PARTITIONS)

    def close(self) -> None:
        """End what still runs."""
        self.ledger.close()
        for program in self._programs:
            program.kill()
        for query in self._queries:
            query.stop()
        self._admin.close()

    def _committed(self) -> Mapping[Any, int]:
        found = self._admin.committed([self.group])[self.group]
        return {place: each.offset for place, each in found.items()} if isinstance(found, Mapping) else {}

    def _owned(self) -> dict[str, tuple[int, ...]]:
        group = self._admin.describe_groups([self.group])[self.group]
        if not isinstance(group, DescribedGroup) or group.state != "Stable":
            return {}
        return {member.member_id: parse_assignment(member.assignment_bytes).get(self.topic, ()) for member in group.members}

    def _described(self) -> str:
        failures = [str(query.exception()) for query in self._queries if not query.isActive]
        said = [program.said() for program in self._programs]
        return f"{self._admin.describe_groups([self.group])}; committed {self._committed()}; ended queries: {failures}; consumers: {said}"


@pytest.fixture
def share(spark: Any, kafka_broker: Any, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Share]:
    made = Share(spark, kafka_broker.bootstrap_servers, unique_name("shared"), tmp_path)
    yield made
    made.close()


def _generation(query: Any) -> int:
    """The generation in which a query planned its last batch; 0 before the first that it planned in this run."""
    latest = [json.loads(progress.sources[0].latestOffset or "null") for progress in query.recentProgress if progress.numInputRows]
    planned = [each["#group_member"]["generation"] for each in latest if each]
    return int(planned[-1]) if planned else 0


def _last_batch(query: Any) -> int:
    return query.lastProgress.batchId if query.lastProgress else -1


def _planners(spark: Any) -> set[psutil.Process]:
    return {each for each in process_tree(spark.sparkContext._gateway.proc.pid) if command_line(each).endswith(PLANNER)}


def test_two_queries_share_the_partitions_and_one_takes_over_from_the_other(spark: Any, tmp_path: Path):
    with Broker(config={"group.min.session.timeout.ms": "1000"}) as broker:
        share = Share(spark, broker.bootstrap_servers, "shared", tmp_path)
        try:
            before, short = _planners(spark), {"kafka.session.timeout.ms": "2000"}
            first = share.query("first", **short)
            share.wait_for_shares(12)
            (planner,) = _planners(spark) - before
            share.query("second", **short)
            share.wait_for_shares(6, 6)
            share.wait_until_processed()
            kill_tree(planner.pid)  # with what would leave the group for it
            share.wait_for_shares(12)
            assert share.wrong() == []
            wait_until(lambda: not first.isActive, "a query whose planner was killed has ended", rest, seconds=WAIT_S_MAX)
            assert min(len(KeyedTable(tmp_path / name).writes()) for name in ("first", "second")) > 0
        finally:
            share.close()


@pytest.mark.parametrize(
    ("kafka_broker", "assignor"),
    [
        ("ottla", "range"),
        ("ottla", "cooperative-sticky"),
        pytest.param("apache-kafka", "cooperative-sticky", marks=pytest.mark.kafka),
    ],
    indirect=["kafka_broker"],
)
def test_a_static_query_shares_with_a_plain_consumer_that_comes_and_goes_and_is_restarted(share: Share, assignor: str):
    static = {"kafka.partition.assignment.strategy": assignor, "kafka.group.instance.id": "spark"}
    query = share.query("spark", **static)
    consumer = share.consumer("plain", assignor)
    share.wait_for_shares(12)
    consumer.start()
    share.wait_for_shares(6, 6)
    share.wait_until_processed()
    consumer.stop()
    share.wait_for_shares(12)
    share.wait_until_processed()
    assert share.result().written_again() == 0, "a partition changes hands between batches, with everything committed"

    generation = share.wait_for_generation(query)
    query.stop()
    query = share.query("spark", **static)
    assert share.wait_for_generation(query) == generation, "a static member that is back within its session costs no rebalance"
    assert share.wrong() == []
