"""Diagnosis in Spark, local[2]: commits of the offsets topic into the table `offset_commits`, and rebalances judged.

50 million commits are generated once (offsets_topic.py) and read from an Ottla broker on the same two cores, from the source to stored
Parquet: 1, 5, 20 and 50 million, which shows whether the CPU time is linear (`--plot FILE`
draws it). Beside it the same rows written by Spark
itself, as for tables that are not on this machine. Then rebalances: group records as the pipeline `verdicts` keeps them, judged and stored.

`--counts` and `--rebalances` take fewer. CPU seconds are those of Spark and its workers; the broker's are extra.
"""

import argparse
import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from offsets_topic import PARTITIONS, TOPIC, make
from peers import HERE, OTTLA
from pyarrow.parquet import ParquetWriter
from pyspark.sql.pandas.types import to_arrow_schema
from report import Metric, Report, at_least, at_most

from ottla.cli.processes import OttlaProcess
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST
from ottla.protocol.model import TopicPartition
from ottla.spark import session
from ottla.spark.group_records import COMMIT_RECORDS
from ottla.spark.options.source_options import Query, parse_options
from ottla.spark.pipelines import offset_commits, verdicts
from ottla.spark.runner.pipeline_run import run, write_in_workers
from ottla.spark.runner.tables import Tables
from ottla.spark.schemas import KAFKA, OFFSET_COMMITS, VERDICT_COMMITS, VERDICT_RECORDS, VERDICTS
from ottla.spark.source.batch_reader import BatchReader
from tests.support.processes import cpu_seconds

CACHE = HERE.parent / ".cache"
COUNTS, COUNTS_SMALL = (1_000_000, 5_000_000, 20_000_000, 50_000_000), (100_000,)
SPARK_COUNT_MAX = 5_000_000
PER_SECOND_MIN, JUDGING_SECONDS_MAX = 3.0, 180
REBALANCES_OF_GROUP, MEMBERS, MEMBER_PARTITIONS = 50, 4, 3


def options(servers: str, count: int) -> dict[str, str]:
    """The first `count` records, the same number of each partition."""
    ends = json.dumps({TOPIC: {str(partition): count // PARTITIONS for partition in range(PARTITIONS)}})
    return {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "decode": "group_records", "endingOffsets": ends}


class Stopwatch:
    """Wall and CPU seconds of Spark since it was made."""

    def __init__(self, spark: Any) -> None:
        self._pid = spark.sparkContext._gateway.proc.pid
        self._cpu, self._begin = cpu_seconds(self._pid), time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._begin, cpu_seconds(self._pid) - self._cpu


def by_workers(spark: Any, servers: str, count: int, folder: Path) -> tuple[float, float]:
    """Seconds from the source to the two stored tables, as a batch of the pipeline does it."""
    shutil.rmtree(folder, ignore_errors=True)
    reader = BatchReader(parse_options(options(servers, count), Query.BATCH), COMMIT_RECORDS, tasks_max=2)
    watch = Stopwatch(spark)
    write_in_workers(spark, reader, offset_commits.in_arrow, {name: folder / name for name in offset_commits.PIPELINE.outputs})
    seconds = watch.read()
    stored = Tables(spark, str(folder)).read("offset_commits", OFFSET_COMMITS).count()
    assert stored == count, f"{stored} rows of {count}"
    return seconds


def by_spark(spark: Any, servers: str, count: int, folder: Path) -> tuple[float, float]:
    """Seconds from the source to `offset_commits`, written by Spark."""
    records = spark.read.format("ottla").schema(COMMIT_RECORDS).options(**options(servers, count)).load()
    commits = run(offset_commits.PIPELINE, {"group_records": records}, ["offset_commits"])["offset_commits"]
    watch = Stopwatch(spark)
    Tables(spark, str(folder)).write("offset_commits", commits, OFFSET_COMMITS)
    return watch.read()


def measure_commits(report: Report, spark: Any, counts: tuple[int, ...], rounds: int) -> list[tuple[int, float]]:
    """Throughput by size; returns the CPU seconds for the plot: others on the machine change them least."""
    directory = CACHE / f"offsets-topic-{max(counts[-1], 50_000_000 if counts[-1] > 100_000 else 0)}"
    begin = time.perf_counter()
    make(directory, int(directory.name.rpartition("-")[2]))
    report.note(f"the commits were generated in {time.perf_counter() - begin:.0f} s (0: they were in the cache)")
    folder, broker, points = directory / "tables", OttlaProcess(directory / "data"), []
    broker.start()
    try:
        with AdminClient(broker.bootstrap_servers) as admin:
            ends = admin.list_offsets([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], LATEST)
        assert min(ends.values()) >= counts[-1] // PARTITIONS, f"the log has {sum(ends.values())} records"
        by_workers(spark, broker.bootstrap_servers, counts[0], folder)  # warms up
        for count in counts:
            target = at_least(PER_SECOND_MIN) if count == COUNTS[-1] else None
            metric = Metric(f"{count / 1e6:g} M commits into offset_commits", "M/s", f">= {PER_SECOND_MIN:g}" if target else "", target)
            for _ in range(rounds):
                broker_cpu = cpu_seconds(broker.pid)
                seconds, cpu = by_workers(spark, broker.bootstrap_servers, count, folder)
                report.add(metric, OTTLA, count / seconds / 1e6)
                report.add(Metric(f"{count / 1e6:g} M commits, CPU of Spark and its workers", "s/M"), OTTLA, cpu / count * 1e6)
                report.add(
                    Metric(f"{count / 1e6:g} M commits, the broker's CPU", "s/M"),
                    OTTLA,
                    (cpu_seconds(broker.pid) - broker_cpu) / count * 1e6,
                )
                points.append((count, cpu))
        count = min(counts[-1], SPARK_COUNT_MAX)
        seconds, _ = by_spark(spark, broker.bootstrap_servers, count, folder)
        report.add(Metric(f"{count / 1e6:g} M commits, written by Spark", "M/s"), OTTLA, count / seconds / 1e6)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return points


def rebalances_of(rng: random.Random, group: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Records of one group and the commits after each: members leave, come back under a new id, or join."""
    at_ms, present, born = 1_760_000_000_000 + group, {0, 1}, [0] * MEMBERS
    for generation in range(1, REBALANCES_OF_GROUP + 1):
        at_ms += rng.choice([8_000, 60_000, 1_000_000])
        number = rng.randrange(MEMBERS)
        if number in present and len(present) > 1:
            present.remove(number)
        else:
            present.add(number)
            born[number] += 1
        members = [
            {
                "member_id": f"worker-{each}-{born[each]:032x}",
                "group_instance_id": None,
                "client_id": f"worker-{each}",
                "client_host": f"/10.0.{group % 250}.{each}",
                "rebalance_timeout": 300_000,
                "session_timeout": 45_000,
                "subscribed_topics": ["orders"],
                "owned_partitions": [],
                "assignment": [("orders", list(range(at * MEMBER_PARTITIONS, (at + 1) * MEMBER_PARTITIONS)))],
            }
            for at, each in enumerate(sorted(present))
        ]
        place = {"partition": group % PARTITIONS, "group": f"group-{group}"}
        offset = generation * 100
        record = {**place, "offset": offset, "at_ms": at_ms, "record_type": 2, "is_tombstone": False, "generation": generation}
        yield (
            {**record, "protocol": "range", "leader": members[0]["member_id"], "state_ms": at_ms - 40, "members": members},
            [
                {
                    **place,
                    "offset": offset + 1 + p,
                    "at_ms": at_ms + 5_000,
                    "topic": "orders",
                    "topic_partition": p,
                    "committed_offset": generation,
                }
                for p in range(len(members) * MEMBER_PARTITIONS)
            ],
        )


def make_rebalances(folder: Path, count: int) -> None:
    """The appended tables of `verdicts` with this many generations; nothing if they are there already."""
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    rng, schemas = random.Random(15), {"verdict_records": VERDICT_RECORDS, "verdict_commits": VERDICT_COMMITS}
    arrow = {name: to_arrow_schema(schema, timezone="UTC") for name, schema in schemas.items()}
    for name in schemas:
        (folder / name).mkdir(parents=True)
    writers = {name: ParquetWriter(folder / name / "part-0.parquet", arrow[name]) for name in schemas}
    for first in range(0, count // REBALANCES_OF_GROUP, 200):
        made = [each for group in range(first, min(first + 200, count // REBALANCES_OF_GROUP)) for each in rebalances_of(rng, group)]
        rows = {"verdict_records": [record for record, _ in made], "verdict_commits": [each for _, commits in made for each in commits]}
        for name, writer in writers.items():
            writer.write_table(pa.Table.from_pylist(rows[name], schema=arrow[name]))
    for writer in writers.values():
        writer.close()
    (folder / "done").touch()


def measure_verdicts(report: Report, spark: Any, count: int) -> None:
    """Group records and commits to stored verdicts."""
    folder = CACHE / f"rebalances-{count}"
    make_rebalances(folder, count)
    tables = Tables(spark, str(folder))
    given = {
        "verdict_records": tables.read("verdict_records", VERDICT_RECORDS),
        "verdict_commits": tables.read("verdict_commits", VERDICT_COMMITS),
    }
    frame = run(verdicts.PIPELINE, {**given, "group_events_if_any": spark.createDataFrame([], KAFKA)})["verdicts"]
    watch = Stopwatch(spark)
    stored = tables.write("verdicts", frame, VERDICTS)
    seconds, _ = watch.read()
    judged = stored.count()
    assert judged >= 0.9 * count, f"{judged} verdicts on {count} generations"
    target = (f"<= {JUDGING_SECONDS_MAX} s", at_most(JUDGING_SECONDS_MAX)) if count >= 1_000_000 else ("", None)
    report.add(Metric(f"{count:,} rebalances judged and stored", "s", *target), OTTLA, seconds)
    shutil.rmtree(folder / "verdicts")


def plot(points: list[tuple[int, float]], path: Path) -> None:
    """CPU seconds over commits, with the line through the largest, as SVG."""
    width, height, edge = 460, 260, 46
    x_max, y_max = max(count for count, _ in points), max(seconds for _, seconds in points)

    def place(count: float, seconds: float) -> tuple[float, float]:
        return edge + count / x_max * (width - 2 * edge), height - edge - seconds / y_max * (height - 2 * edge)

    left, low = place(0, 0)
    right, top = place(*max(points))
    parts = [
        f'<path d="M{left} {edge / 2}V{low}H{width - edge / 2}" fill="none" stroke="#64748b"/>',
        f'<path d="M{left} {low}L{right:.1f} {top:.1f}" stroke="#93c5fd" stroke-dasharray="4 3"/>',
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">million commits</text>',
        '<text x="8" y="20">CPU seconds of Spark and its workers</text>',
    ]
    for count, seconds in points:
        x, y = place(count, seconds)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#2563eb"/>')
        parts.append(f'<text x="{x:.1f}" y="{low + 16:.1f}" text-anchor="middle">{count / 1e6:g}</text>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y - 8:.1f}" text-anchor="end">{seconds:.1f}</text>')
    style = 'font-family="sans-serif" font-size="11" fill="#475569"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}><rect width="100%" height="100%" fill="white"/>'
    path.write_text(head + "".join(parts) + "</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="little work: shows that it runs, not how fast")
    parser.add_argument("--counts", help="commits in millions, separated by commas (default: 1,5,20,50)")
    parser.add_argument("--rebalances", type=int, default=1_000_000, help="how many are judged (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the time over the size there, as SVG")
    parser.add_argument("--json", metavar="FILE", help="write every single measurement there")
    wanted = parser.parse_args()
    counts = COUNTS_SMALL if wanted.small else COUNTS
    if wanted.counts:
        counts = tuple(round(float(count) * 1e6) for count in wanted.counts.split(","))
    report = Report("Diagnosis in Spark")
    spark = session("benchmark", master="local[2]", settings={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "8"})
    points = measure_commits(report, spark, counts, wanted.rounds)
    measure_verdicts(report, spark, 2_000 if wanted.small else wanted.rebalances)
    spark.stop()
    if wanted.plot:
        plot(points, wanted.plot)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
