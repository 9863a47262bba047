"""The Spark side of the demo: the pipelines `rebalances` and `lag` for the group, and the flights per airline counted from the topic.

Reads the running broker, writes Parquet into the results, and returns plain values.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.consumers import GROUP
from ottla.cli.demo.lag_chart import LagRow
from ottla.cli.demo.results import Results
from ottla.cli.demo.scene import TOPIC, EndOffset
from ottla.testing.processes.java import QUICK_START_OPTIONS, ToolMissing, find_java_home

_STDERR = 2


def require_java() -> None:
    """Let Spark find a Java, before anything runs. Raises DemoFailedError with what to do."""
    try:
        os.environ["JAVA_HOME"] = str(find_java_home())
    except ToolMissing as missing:
        raise DemoFailedError(f"the demo ends with two Spark jobs, and Spark {missing}") from missing


class Analysis:
    """A Spark session, from now until `close`. Spark's output goes to spark.log in the results."""

    def __init__(self, results: Results, bootstrap_servers: str) -> None:
        self._results = results
        self._bootstrap_servers = bootstrap_servers
        self._spark = _start_spark(results.spark_log)

    def close(self) -> None:
        """End the session."""
        self._spark.stop()

    def rebalances(self) -> list[dict[str, Any]]:
        """Run the pipeline on the group events and keep its table; return our group's rows in the order in which they began."""
        from ottla.spark.pipelines.rebalances import PIPELINE
        from ottla.spark.runner.pipeline_run import run_on_cluster

        directory = str(self._results.directory.resolve())
        outputs = run_on_cluster(self._spark, PIPELINE, bootstrap_servers=self._bootstrap_servers, directory=directory)
        table = outputs["rebalances"].where(f"`group` = '{GROUP}'")
        return [row.asDict() for row in table.orderBy("started_at", "generation").collect()]

    def lag(self, ends: Sequence[EndOffset]) -> list[LagRow]:
        """Run the pipeline on the group's commits and these end offsets, and keep its tables; return the lag, ordered by time.

        The producer's acknowledgements say where the topic ended at which time; the records cannot, for their timestamps are from 2013.
        """
        from ottla.spark.pipelines.lag import PIPELINE
        from ottla.spark.runner.inputs import ClusterInputs
        from ottla.spark.runner.pipeline_run import PipelineRun
        from ottla.spark.runner.tables import Tables
        from ottla.spark.schemas import END_OFFSETS

        rows = [(TOPIC, each.partition, None, each.end_offset, datetime.fromtimestamp(each.at_ms / 1000, UTC)) for each in ends]
        history = self._spark.createDataFrame(rows, END_OFFSETS)
        inputs = ClusterInputs(spark=self._spark, bootstrap_servers=self._bootstrap_servers)
        tables = Tables(self._spark, str(self._results.directory.resolve()))
        run = PipelineRun(pipeline=PIPELINE, inputs=inputs, tables=tables, groups=(GROUP,))
        found = run.batch(given={"end_offset_history": history})["lag_history"]
        return [LagRow(*row) for row in found.orderBy("at").selectExpr("partition", "unix_millis(at)", "lag").collect()]

    def flights_per_airline(self) -> dict[str, int]:
        """Count the topic's records by carrier code, and keep the table."""
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
        from ottla.spark.sessions import OWN_QUERIES, SMALL, SessionError, session
    try:
        with _stderr_into(log):
            # Its JVM lives for seconds: the better compiler would take more time than it saves.
            settings = {**SMALL, **OWN_QUERIES, "spark.driver.extraJavaOptions": " ".join(QUICK_START_OPTIONS)}
            return session("ottla demo", settings=settings)
    except SessionError as error:
        raise DemoFailedError(f"{error} (Spark's output is in {log})") from error


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Send what this process, and every child it starts meanwhile, writes to stderr into a file: Java keeps it for all its life."""
    before = os.dup(_STDERR)
    with path.open("a") as file:
        os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(before, _STDERR)
        os.close(before)
