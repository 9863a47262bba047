"""The Spark side of the demo: the pipelines `rebalances` and `lag` for the group, and the flights per airline counted from the topic.

It reads the running broker, writes Parquet into the results, and hands back plain values. It compares and prints nothing.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ottla.cli.flights import DemoFailedError
from ottla.cli.flights.consumers import GROUP
from ottla.cli.flights.lag_picture import LagRow
from ottla.cli.flights.results import Results
from ottla.cli.flights.scene import TOPIC, EndOffset
from ottla.testing.java import ToolMissing, find_java

_STDERR = 2


def require_java() -> None:
    """Makes sure, before anything runs, that Spark will find a Java. Raises DemoFailedError with what to do."""
    try:
        java = find_java()
    except ToolMissing as missing:
        raise DemoFailedError(f"the demo ends with two Spark jobs, and Spark {missing}") from missing
    os.environ["JAVA_HOME"] = str(java.resolve().parent.parent)


class Analysis:
    """A Spark session of our own, started at once, until `close`. What Spark has to say goes to spark.log in the results."""

    def __init__(self, results: Results, bootstrap_servers: str) -> None:
        self._results = results
        self._bootstrap_servers = bootstrap_servers
        self._spark = _start_spark(results.spark_log)

    def close(self) -> None:
        """End the session."""
        self._spark.stop()

    def rebalances(self) -> list[dict[str, Any]]:
        """Runs the pipeline on the group events, keeps its table, and gives our group's rows in the order in which they began."""
        from ottla.spark.pipelines.rebalances import PIPELINE
        from ottla.spark.runner import run_on_cluster

        directory = str(self._results.directory.resolve())
        outputs = run_on_cluster(self._spark, PIPELINE, bootstrap_servers=self._bootstrap_servers, directory=directory)
        table = outputs["rebalances"].where(f"`group` = '{GROUP}'")
        return [row.asDict() for row in table.orderBy("started_at", "generation").collect()]

    def lag(self, ends: Sequence[EndOffset]) -> list[LagRow]:
        """Runs the pipeline on the group's commits and these end offsets, keeps its tables, and gives the lag over time, in its order.

        The producer's acknowledgements tell where the topic ended when; its records cannot, for their times are those of 2013.
        """
        from ottla.spark.inputs import ClusterInputs
        from ottla.spark.pipelines.lag import PIPELINE
        from ottla.spark.runner import PipelineRun
        from ottla.spark.schemas import END_OFFSETS
        from ottla.spark.tables import Tables

        rows = [(TOPIC, each.partition, None, each.end_offset, datetime.fromtimestamp(each.at_ms / 1000, UTC)) for each in ends]
        history = self._spark.createDataFrame(rows, END_OFFSETS)
        inputs = ClusterInputs(spark=self._spark, bootstrap_servers=self._bootstrap_servers)
        tables = Tables(self._spark, str(self._results.directory.resolve()))
        run = PipelineRun(pipeline=PIPELINE, inputs=inputs, tables=tables, groups=(GROUP,))
        found = run.batch(given={"end_offset_history": history})["lag_history"]
        return [LagRow(*row) for row in found.orderBy("at").selectExpr("partition", "unix_millis(at)", "lag").collect()]

    def flights_per_airline(self) -> dict[str, int]:
        """Counts the topic's records by carrier code, and keeps the table."""
        options = {"kafka.bootstrap.servers": self._bootstrap_servers, "subscribe": TOPIC}
        records = self._spark.read.format("ottla").schema("value binary").options(**options).load()
        carriers = records.selectExpr("get_json_object(cast(value AS string), '$.carrier') AS carrier")
        path = str(self._results.flights_per_airline.resolve())
        carriers.groupBy("carrier").count().withColumnRenamed("count", "flights").write.mode("overwrite").parquet(path)
        return {row["carrier"]: row["flights"] for row in self._spark.read.parquet(path).collect()}


def _start_spark(log: Path) -> Any:
    with warnings.catch_warnings():
        # PySpark warns of pandas 3 when it is imported; nothing here uses pandas.
        warnings.simplefilter("ignore", FutureWarning)
        from ottla.spark.sessions import SMALL, JavaMissingError, session
    try:
        with _stderr_into(log):
            return session("ottla demo", settings=SMALL)
    except JavaMissingError as error:
        raise DemoFailedError(f"{error} (Spark's own words are in {log})") from error


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Sends what this process, and every child it starts meanwhile, writes to stderr into a file: Java keeps it for all its life."""
    before = os.dup(_STDERR)
    with path.open("a") as file:
        os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(before, _STDERR)
        os.close(before)
