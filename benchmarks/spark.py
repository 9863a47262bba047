"""Spark reading Kafka: format("ottla") beside the JVM connector, format("kafka"), in one session of local[2], from both brokers.

Rows a second and CPU seconds a million rows of batch queries: count and length of all values, with all seven columns handed over and with
the value alone; all seven used; a bare count; 100 B and 1 kB; none, lz4, zstd. Then the time of a trigger while 2,000 rows a second come
in, the first query of a new session, JSON parsed and grouped on one core and on two, and commits decoded a second. CPU seconds are those of
the JVM and of its Python workers together; the brokers' are not in them.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Producer
from load import Shape, fill
from peers import APACHE_KAFKA, HERE, OTTLA, QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_least, at_least_times, at_most_kafkas
from throughput import values_of

from ottla.cli.processes import ToolMissing
from ottla.spark import session
from tests.support.processes import cpu_seconds
from tests.support.reference.maven import fetch_connector

OURS, JVM = OTTLA, "jvm-connector"
FORMATS = {OURS: "ottla", JVM: "kafka"}
CACHE = HERE.parent / ".cache"
PARTITIONS = 4
SIZES, SIZES_SMALL = ((100, 3_000_000), (1_000, 2_000_000)), ((100, 4_000), (1_000, 2_000))
CODECS = ("none", "lz4", "zstd")
COMMITS, COMMITS_SMALL = Shape(500, 100), Shape(2, 5)
COMMITS_PER_SECOND_MIN = 3e6
ROWS_A_SECOND = 2_000
TRIGGERS, TRIGGERS_SMALL = 60, 3
TRIGGERS_BEFORE = 10
PRODUCED_AT_ONCE = 20_000


class Query(NamedTuple):
    """What is asked of a topic, and the columns that format("ottla") has to build (empty: all of them)."""

    name: str
    expressions: tuple[str, ...]
    schema: str = ""

    def run(self, spark: Any, form: str, servers: str, topic: str) -> int:
        """The number of rows that were read."""
        reader = spark.read.format(FORMATS[form]).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
        if self.schema and form == OURS:
            reader = reader.schema(self.schema)
        return int(reader.load().selectExpr("count(*)", *self.expressions).collect()[0][0])


SEVEN = Query("7 columns", ("sum(length(value))",))
EACH_USED = Query(
    "7 columns, each one used",
    ("sum(length(key))", "sum(length(value))", "max(topic)", "max(partition)", "max(offset)", "max(timestamp)", "max(timestampType)"),
)
VALUE = Query("value only", ("sum(length(value))",), "value binary")
COUNT = Query("count", ())
QUERIES = (SEVEN, EACH_USED, VALUE, COUNT)
TARGETS = {("7 columns", "none"): 2.5, ("value only", "none"): 3.5, ("7 columns", "lz4"): 1.5}
COMMITS_USED = ("max(group)", "max(topic)", "sum(topic_partition)", "sum(committed_offset)", "max(commit_timestamp)")
COMMIT_COLUMNS = "group string, topic string, topic_partition int, committed_offset bigint, commit_timestamp timestamp"

FIRST_QUERY = """
import sys, time
from ottla.spark import session
spark = session("first", master="local[2]", settings=dict(each.split("=", 1) for each in sys.argv[4:]))
begin = time.perf_counter()
rows = spark.read.format(sys.argv[1]).option("kafka.bootstrap.servers", sys.argv[2]).option("subscribe", sys.argv[3]).load().count()
print(time.perf_counter() - begin, rows)
"""


FLIGHTS, FLIGHTS_SMALL = 1_000_000, 20_000
FLIGHT = '{"carrier":"%s","origin":"AAA","destination":"BBB","delay_minutes":%d,"distance_km":%d,"cancelled":false}'
FLIGHT_SCHEMA = "carrier string, origin string, destination string, delay_minutes int, distance_km int, cancelled boolean"
CARRIERS = 20


def flights() -> list[bytes]:
    """Values of JSON, 110 bytes each."""
    return [(FLIGHT % (f"C{each % CARRIERS}", each % 90, 100 + each)).encode() for each in range(5_000)]


def produce(servers: str, topic: str, size: int, count: int, codec: str, values: Iterable[bytes] = ()) -> None:
    settings = {**QUIET, "linger.ms": 20, "compression.type": codec, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": servers, **settings})
    values = cycle(values or values_of(size))
    for number, done in enumerate(range(0, count, PRODUCED_AT_ONCE)):
        messages = [{"key": b"key-%d" % (done + at), "value": value} for at, value in enumerate(islice(values, PRODUCED_AT_ONCE))]
        producer.produce_batch(topic, messages[: count - done], partition=number % PARTITIONS)
        while len(producer) > 5 * PRODUCED_AT_ONCE:
            producer.poll(0.01)
    assert producer.flush(120) == 0


def measure_batches(report: Report, spark: Any, forms: list[str], broker: Any, wanted: Any) -> None:
    pid = spark.sparkContext._gateway.proc.pid
    for size, count in SIZES_SMALL if wanted.small else SIZES:
        for codec in CODECS:
            topic = f"rows-{size}-{codec}"
            queries = [query for query in QUERIES if wanted.only in _name(broker, size, codec, query)]
            if not queries:
                continue
            make_topic(broker, topic, PARTITIONS)
            produce(broker.bootstrap_servers, topic, size, count, codec)
            for query in queries:
                name = _name(broker, size, codec, query)
                factor = TARGETS.get((query.name, codec)) if query is not VALUE or size == SIZES[0][0] else None
                rows = Metric(name, "M rows/s", f">= {factor}x" if factor else "", at_least_times(factor) if factor else None)
                for number in range(wanted.rounds + 1):
                    for form in forms:
                        cpu, begin = cpu_seconds(pid), time.perf_counter()
                        found = query.run(spark, form, broker.bootstrap_servers, topic)
                        took, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
                        assert found == count, f"{form}: {found} of {count} rows"
                        if number:  # the first round warms up
                            report.add(rows, form, count / took / 1e6)
                            report.add(Metric(f"{name}, CPU", "s/M rows"), form, max(cpu, 0.01) / count * 1e6)


def _name(broker: Any, size: int, codec: str, query: Query) -> str:
    return f"{broker.kind}: {size:,} B, {codec}, {query.name}"


@contextmanager
def trickle(servers: str, topic: str) -> Iterator[None]:
    """ROWS_A_SECOND rows a second while the block runs."""
    producer, is_over = Producer({"bootstrap.servers": servers, **QUIET, "linger.ms": 5}), threading.Event()

    def run() -> None:
        while not is_over.wait(0.01):
            for number in range(ROWS_A_SECOND // 100):
                producer.produce(topic, b"v" * 100, partition=number % PARTITIONS)
            producer.poll(0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        producer.flush(10)


def measure_triggers(report: Report, spark: Any, forms: list[str], broker: Any, wanted: Any) -> None:
    """Median time of a trigger, back to back, into a sink that throws rows away."""
    topic, triggers = "trickle", TRIGGERS_SMALL if wanted.small else TRIGGERS
    metric = Metric(f"{broker.kind}: median trigger at {ROWS_A_SECOND:,} rows/s", "ms", "<= JVM connector", at_most_kafkas)
    if wanted.only not in metric.name:
        return
    make_topic(broker, topic, PARTITIONS)
    with trickle(broker.bootstrap_servers, topic):
        for _ in range(wanted.rounds):
            for form in forms:
                reader = spark.readStream.format(FORMATS[form]).option("kafka.bootstrap.servers", broker.bootstrap_servers)
                query = reader.option("subscribe", topic).load().writeStream.format("noop").start()
                seen: dict[int, dict[str, int]] = {}
                while len(seen) < TRIGGERS_BEFORE + triggers:
                    for progress in query.recentProgress:
                        if progress.numInputRows:
                            seen[progress.batchId] = progress.durationMs
                    assert query.isActive, query.exception()
                    time.sleep(0.2)
                query.stop()
                times = [seen[batch] for batch in sorted(seen)[TRIGGERS_BEFORE:]]
                report.add(metric, form, median(each["triggerExecution"] for each in times))
                parts = {part: median(each.get(part, 0) for each in times) for part in times[0]}
                report.note(f"{form}, {broker.kind}: " + ", ".join(f"{part} {value:.0f}" for part, value in sorted(parts.items())) + " ms")


def measure_first_query(report: Report, settings: dict[str, str], forms: list[str], broker: Any, wanted: Any) -> None:
    metric = Metric(f"{broker.kind}: first query of a new session", "s", "<= JVM connector", at_most_kafkas)
    if wanted.only not in metric.name:
        return
    topic, count = "first", 10_000
    make_topic(broker, topic, PARTITIONS)
    produce(broker.bootstrap_servers, topic, 100, count, "none")
    for _ in range(wanted.rounds):
        for form in forms:
            pairs = [f"{name}={value}" for name, value in settings.items()]
            command = [sys.executable, "-c", FIRST_QUERY, FORMATS[form], broker.bootstrap_servers, topic, *pairs]
            seconds, rows = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-2:]
            assert int(rows) == count
            report.add(metric, form, float(seconds))


def measure_json(report: Report, settings: dict[str, str], forms: list[str], broker: Any, wanted: Any) -> None:
    """Values of JSON, uncompressed: read, parsed, grouped; in a session of each number of cores."""
    topic, count = "flights", FLIGHTS_SMALL if wanted.small else FLIGHTS
    metrics = {cores: Metric(f"{broker.kind}: from_json, {cores} cores", "M rows/s", ">= 1x", at_least_times(1)) for cores in (1, 2)}
    chosen = {cores: metric for cores, metric in metrics.items() if wanted.only in metric.name}
    if chosen:
        make_topic(broker, topic, PARTITIONS)
        produce(broker.bootstrap_servers, topic, 0, count, "none", flights())
    for cores, metric in chosen.items():
        spark = session("benchmark", master=f"local[{cores}]", settings=settings)
        for number, form in ((number, form) for number in range(wanted.rounds + 1) for form in forms):
            options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
            begin = time.perf_counter()
            parsed = spark.read.format(FORMATS[form]).options(**options).load()
            parsed = parsed.selectExpr(f"from_json(cast(value AS string), '{FLIGHT_SCHEMA}') AS flight")
            rows = parsed.groupBy("flight.carrier").agg({"*": "count", "flight.delay_minutes": "sum"}).collect()
            took = time.perf_counter() - begin
            assert (len(rows), sum(row["count(1)"] for row in rows)) == (CARRIERS, count)
            if number:  # the first round warms up
                report.add(metric, form, count / took / 1e6)
        spark.stop()


def measure_commits(report: Report, spark: Any, broker: Any, wanted: Any) -> None:
    """Commits of __consumer_offsets, decoded into five typed columns and summed up."""
    shape = COMMITS_SMALL if wanted.small else COMMITS
    target = f">= {COMMITS_PER_SECOND_MIN / 1e6:.0f} M/s"
    metric = Metric(f"{broker.kind}: __consumer_offsets decoded", "M commits/s", target, at_least(COMMITS_PER_SECOND_MIN / 1e6))
    if wanted.only not in metric.name:
        return
    fill(broker, shape)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "__consumer_offsets", "decode": "group_records"}
    for number in range(wanted.rounds + 1):
        begin = time.perf_counter()
        frame = spark.read.format("ottla").options(**options).schema(COMMIT_COLUMNS).load()
        found = frame.selectExpr("count(committed_offset)", *COMMITS_USED).collect()[0][0]
        assert found >= shape.commits, f"{found} of {shape.commits} commits"
        if number:
            report.add(metric, OURS, found / (time.perf_counter() - begin) / 1e6)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report, forms, settings = Report("Spark", JVM), [OURS, JVM], {"spark.driver.memory": "2g"}
    try:
        jars = fetch_connector(CACHE)
        settings["spark.jars"] = ",".join(map(str, jars))
    except ToolMissing as missing:
        print(f"{JVM}: left out, {missing}", file=sys.stderr)
        forms.remove(JVM)
    brokers = [name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]
    with running_peers(brokers) as running:
        for broker in running:
            measure_first_query(report, settings, forms, broker, wanted)
            measure_json(report, settings, forms, broker, wanted)
        spark = session("benchmark", master="local[2]", settings=settings)
        for broker in running:
            measure_batches(report, spark, forms, broker, wanted)
            measure_triggers(report, spark, forms, broker, wanted)
            measure_commits(report, spark, broker, wanted)
        spark.stop()
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
