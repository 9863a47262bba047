"""The demo's analysis: pipelines on the cluster's own topics in Spark, and the chart of lag that they give.

A character of the chart shows the greatest lag within its time, so that short peaks are visible; it is blank where the lag is not known.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.demo.scene import GROUP, TOPIC, EndOffset
from ottla.cli.processes import QUICK_START_OPTIONS, ToolMissing, find_java_home

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
HEIGHT: Final = 5
"""Lines of the group's chart."""
_MARGIN: Final = 9
"""Characters before the chart: a number, or a partition's."""
_AFTER: Final = 7
"""Characters after a partition's line, for its greatest lag."""


class LagRow(NamedTuple):
    """The lag (messages, None: not known) of a partition from `at_ms` on, milliseconds since 1970."""

    partition: int
    at_ms: int
    lag: int | None


def spans(rows: Sequence[LagRow], starts_ms: int, ends_ms: int, count: int) -> dict[int, list[int | None]]:
    """Each partition's greatest lag in each of `count` equal spans of the time from start to end; `rows` are in the order of time."""
    span_ms = max(1.0, (ends_ms - starts_ms) / count)
    found: dict[int, list[int | None]] = {}
    for partition in sorted({row.partition for row in rows}):
        line: list[int | None] = [None] * count
        known, reached = None, 0
        for row in rows:
            if row.partition != partition or row.at_ms > ends_ms:
                continue
            at = min(count - 1, max(0, int((row.at_ms - starts_ms) / span_ms)))
            for each in range(reached, at + 1):
                line[each] = _greater(line[each], known)
            known, reached = row.lag, at
            line[at] = _greater(line[at], known)
        for each in range(reached, count):
            line[each] = _greater(line[each], known)
        found[partition] = line
    return found


def draw(rows: Sequence[LagRow], rebalances: Sequence[tuple[int, int]], *, starts_ms: int, ends_ms: int, width: int) -> list[str]:
    """Lines of at most `width` letters; `rebalances` are (generation, when it began in milliseconds since 1970)."""
    count = width - _MARGIN - _AFTER
    by_partition = spans(rows, starts_ms, ends_ms, count)
    totals = [sum(each or 0 for each in column) for column in zip(*by_partition.values(), strict=True)] or [0] * count
    greatest = max(max(totals), 1)
    lines = []
    for level in range(HEIGHT, 0, -1):
        label = f"{greatest:,}" if level == HEIGHT else "0" if level == 1 else ""
        lines.append(f"{label:>{_MARGIN - 1}} " + "".join(_block(total * HEIGHT / greatest - level + 1) for total in totals))
    lines += [" " * _MARGIN + marks for marks in _marks(rebalances, starts_ms, ends_ms, count)]
    most = max((each or 0 for line in by_partition.values() for each in line), default=0) or 1
    for partition, line in by_partition.items():
        letters = "".join(" " if each is None else _block(each / most) for each in line)
        lines.append(f"{partition:>{_MARGIN - 1}} {letters}{max((each or 0 for each in line), default=0):>{_AFTER},}")
    return [line.rstrip() for line in lines]


def summary(rows: Sequence[LagRow], *, starts_ms: int, ends_ms: int) -> Mapping[str, int]:
    """The greatest lag of a partition, and which one's it was."""
    seen = [row for row in rows if row.lag is not None and starts_ms <= row.at_ms <= ends_ms]
    worst = max(seen, key=lambda row: row.lag or 0, default=LagRow(-1, starts_ms, 0))
    return {"greatest_lag": worst.lag or 0, "its_partition": worst.partition, "at_ms": worst.at_ms}


def _marks(rebalances: Sequence[tuple[int, int]], starts_ms: int, ends_ms: int, count: int) -> list[str]:
    """The generations where they began, earlier ones at the left edge; one that would overlap another goes a line further down."""
    lines: list[str] = []
    for generation, at_ms in sorted(rebalances, key=lambda rebalance: rebalance[1]):
        if at_ms > ends_ms:
            continue
        text = f"▲{generation}"
        at = max(0, min(count - len(text), int((at_ms - starts_ms) * count / max(1, ends_ms - starts_ms))))
        fits = [number for number, line in enumerate(lines) if len(line) < at or not line]
        if not fits:
            lines.append("")
            fits = [len(lines) - 1]
        lines[fits[0]] = lines[fits[0]].ljust(at) + text
    return lines


def _block(part: float) -> str:
    """A letter that is filled to this part, 0 to 1; the least lag that is none at all shows."""
    if part <= 0:
        return BLOCKS[0]
    return BLOCKS[max(1, min(len(BLOCKS) - 1, round(part * (len(BLOCKS) - 1))))]


def _greater(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


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
