"""A streaming query as a program, to be killed: a topic into a table, with a group, and a checkpoint on disk.

In commit mode the query commits to the group, and the table is Spark's file sink. In member mode the query is a member of the group,
and the table is keyed by topic, partition and offset. A query that fails is started again in the same session, as in production. The
program runs until it is killed, or until SIGTERM, at which it stops the query.
"""

import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import ottla.spark
from ottla.cli.processes import QUICK_START_OPTIONS
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sessions import SMALL
from tests.support.reference.class_archives import CACHE, archive_options, spark_archive
from trials.kills.broken_sources import CommitsAhead, GivesUpEarly, ReadsTwice, SkipsBatches
from trials.kills.group import MEMBER
from trials.kills.tables import KeyedTable

TRIGGER: Final = "200 milliseconds"
SETTINGS: Final = {
    **SMALL,
    "spark.driver.memory": "512m",
}
SOURCES: Final[Mapping[str, type[OttlaDataSource]]] = {
    each.name(): each for each in (OttlaDataSource, CommitsAhead, ReadsTwice, GivesUpEarly, SkipsBatches)
}
SCHEMA: Final = "topic string, partition int, offset bigint, value binary"


class Job(NamedTuple):
    """What to run, as the program's arguments; `directory` holds the table and the checkpoint. `source` is a key of SOURCES.

    `mode` is that of the group; the rest is for members: the assignor by Kafka's name, session timeout and heartbeat interval
    in ms, and the group.instance.id ("": none).
    """

    servers: str
    topic: str
    group: str
    directory: str
    source: str
    mode: str
    assignor: str
    session_ms: str
    heartbeat_ms: str
    instance: str

    def options(self) -> dict[str, str]:
        """The options of the source."""
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": self.topic, "group.id": self.group}
        if self.mode != MEMBER:
            return {**options, "startingOffsets": "earliest"}
        member = {
            "ottla.group.mode": MEMBER,
            "kafka.auto.offset.reset": "earliest",
            "kafka.partition.assignment.strategy": self.assignor,
            "kafka.session.timeout.ms": self.session_ms,
            "kafka.heartbeat.interval.ms": self.heartbeat_ms,
        }
        return {**options, **member, **({"kafka.group.instance.id": self.instance} if self.instance else {})}


def main(arguments: list[str]) -> None:
    """Run until killed, or until SIGTERM."""
    job = Job(*arguments)
    is_over = threading.Event()
    # A process that lives for seconds: starting is most of its work.
    java_options = " ".join((*QUICK_START_OPTIONS, *archive_options(spark_archive(CACHE))))
    settings = {**SETTINGS, "spark.driver.extraJavaOptions": java_options}
    spark = ottla.spark.session("ottla-streams", master="local[2]", settings=settings)
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    if job.source != "ottla":
        spark.dataSource.register(SOURCES[job.source])
    while not is_over.is_set():
        query = start(spark, job)
        while query.isActive and not is_over.wait(0.1):
            pass
        if query.isActive:
            query.stop()
        else:
            sys.stderr.write(f"the query failed: {query.exception()}\n")
            sys.stderr.flush()
    spark.stop()


def start(spark: Any, job: Job) -> Any:
    """Start the query."""
    directory = Path(job.directory)
    rows = spark.readStream.format(job.source).schema(SCHEMA).options(**job.options()).load()
    rows = rows.selectExpr("topic", "partition", "offset", "cast(value as string) as value")
    if job.mode == MEMBER:
        table = KeyedTable(directory)
        writer = rows.writeStream.foreachBatch(lambda batch, _: table.write(batch.collect()))
    else:
        writer = rows.writeStream.format("parquet").option("path", str(directory / "table"))
    return writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(processingTime=TRIGGER).start()


if __name__ == "__main__":
    main(sys.argv[1:])
