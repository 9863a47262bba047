"""A streaming query as a program, to be killed: a topic into a Parquet table, commits to a group, a checkpoint on disk.

A query that fails is started again in the same session, as in production. The program runs until it is killed.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import ottla.spark
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sessions import SMALL
from ottla.testing.processes.java import QUICK_START_OPTIONS
from ottla.testing.reference.class_archives import CACHE, archive_options, spark_archive
from ottla.testing.streaming_kills.broken import CommitsAhead, ReadsTwice

TRIGGER: Final = "200 milliseconds"
SETTINGS: Final = {
    **SMALL,
    "spark.driver.memory": "512m",
}
SOURCES: Final[Mapping[str, type[OttlaDataSource]]] = {each.name(): each for each in (OttlaDataSource, CommitsAhead, ReadsTwice)}


class Job(NamedTuple):
    """What to run, as the program's arguments; `directory` holds the table and the checkpoint. `source` is a key of SOURCES."""

    servers: str
    topic: str
    group: str
    directory: str
    source: str


def main(arguments: list[str]) -> None:
    """Run until killed."""
    job = Job(*arguments)
    # A process that lives for seconds: starting is most of its work.
    java_options = " ".join((*QUICK_START_OPTIONS, *archive_options(spark_archive(CACHE))))
    settings = {**SETTINGS, "spark.driver.extraJavaOptions": java_options}
    spark = ottla.spark.session("ottla-streams", master="local[2]", settings=settings)
    if job.source != "ottla":
        spark.dataSource.register(SOURCES[job.source])
    directory = Path(job.directory)
    options = {"kafka.bootstrap.servers": job.servers, "subscribe": job.topic, "startingOffsets": "earliest", "group.id": job.group}
    while True:
        reader = spark.readStream.format(job.source).schema("topic string, partition int, offset bigint, value binary")
        rows = reader.options(**options).load().selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        writer = rows.writeStream.format("parquet").option("path", str(directory / "table"))
        query = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(processingTime=TRIGGER).start()
        while query.isActive:
            time.sleep(0.1)
        sys.stderr.write(f"the query failed: {query.exception()}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
