"""Spark moving a topic to another number of partitions: `ottla migrate` beside a plain read-and-write, in one session of local[2].

Records, megabytes and CPU seconds of 24 partitions to 6 and of 6 to 24, 100 B and 1 kB; keys that all occur about as often, a key that
half of the records have, no keys. The plain jobs read key and value and write them, by format("ottla") and by the JVM connector: no header,
no time, no order across partitions, no offsets of groups, and nothing that a second run could go on with. A migration also reads its target
to verify it. CPU seconds are those of the JVM and of its Python workers together; the broker's are not in them.
"""

import sys
import time
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any, NamedTuple

from confluent_kafka import Producer
from peers import APACHE_KAFKA, OTTLA, QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_least_times
from spark import CACHE, PRODUCED_AT_ONCE
from throughput import values_of

from ottla.cli.migrate import cluster
from ottla.cli.processes import ToolMissing
from ottla.spark import session
from ottla.spark.migration.job import MigrationRun
from ottla.spark.migration.values import Migration
from tests.support.processes import cpu_seconds
from tests.support.reference.maven import fetch_connector
from trials.migration.records import Ends

PLAIN, PLAIN_JVM = "read-and-write", "read-and-write-jvm"
FORMATS = {PLAIN: "ottla", PLAIN_JVM: "kafka"}
KEYS = 100_000
COUNTS, COUNTS_SMALL = {100: 2_000_000, 1_000: 300_000}, {100: 4_000, 1_000: 2_000}
OF_PLAIN_MIN = 0.8
DISTRIBUTIONS: dict[str, Callable[[int], bytes | None]] = {
    "keys": lambda number: b"key-%d" % (number * 7_919 % KEYS),
    "one key of half": lambda number: b"key-%d" % (number * 7_919 % KEYS if number % 2 else 0),
    "no keys": lambda number: None,
}


class Cell(NamedTuple):
    """A topic and the number of partitions that it is moved to."""

    partitions: int
    targets: int
    size: int
    keys: str

    @property
    def name(self) -> str:
        return f"{self.partitions} to {self.targets}, {self.size:,} B, {self.keys}"


CELLS = [Cell(*shape, size, "keys") for shape in ((24, 6), (6, 24)) for size in COUNTS]
CELLS += [Cell(24, 6, 100, keys) for keys in DISTRIBUTIONS if keys != "keys"]


def produce(servers: str, topic: str, cell: Cell, count: int) -> int:
    """Write the records to the partitions that Java's client would choose; return the bytes of keys and values."""
    settings = {**QUIET, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": servers, **settings})
    key_of, values, size = DISTRIBUTIONS[cell.keys], cycle(values_of(cell.size)), 0
    for done in range(0, count, PRODUCED_AT_ONCE):
        numbers = range(done, min(done + PRODUCED_AT_ONCE, count))
        messages = [{"key": key_of(number), "value": value} for number, value in zip(numbers, islice(values, len(numbers)))]
        size += sum(len(each["key"] or b"") + len(each["value"] or b"") for each in messages)
        assert producer.produce_batch(topic, messages) == len(messages)
        while len(producer) > 5 * PRODUCED_AT_ONCE:
            producer.poll(0.01)
    assert producer.flush(120) == 0
    return size


def read_and_write(spark: Any, form: str, servers: str, source: str, target: str) -> None:
    reader = spark.read.format(FORMATS[form]).option("kafka.bootstrap.servers", servers).option("subscribe", source)
    writer = reader.load().select("key", "value").write.format(FORMATS[form]).mode("append")
    writer.option("kafka.bootstrap.servers", servers).option("topic", target).save()


def migrate(spark: Any, servers: str, source: str, target: str) -> None:
    here = cluster(servers, None, option="--bootstrap-server")
    MigrationRun(spark, Migration(source_cluster=here, target_cluster=here, source=source, target=target, groups=())).copy()


def measure(report: Report, spark: Any, forms: list[str], broker: Any, wanted: Any) -> None:
    pid, servers = spark.sparkContext._gateway.proc.pid, broker.bootstrap_servers
    for number, cell in enumerate(CELLS):
        name = f"{broker.kind}: {cell.name}"
        if wanted.only not in name:
            continue
        count, source = (COUNTS_SMALL if wanted.small else COUNTS)[cell.size], f"source-{number}"
        make_topic(broker, source, cell.partitions)
        megabytes = produce(servers, source, cell, count) / 1e6
        rate = Metric(name, "M records/s", f">= {OF_PLAIN_MIN}x {PLAIN}", at_least_times(OF_PLAIN_MIN))
        for round_number in range(wanted.rounds + 1):
            for form in forms:
                target = f"target-{number}-{round_number}-{form}"
                make_topic(broker, target, cell.targets)
                cpu, begin = cpu_seconds(pid), time.perf_counter()
                if form == OTTLA:
                    migrate(spark, servers, source, target)
                else:
                    read_and_write(spark, form, servers, source, target)
                took, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
                check_count(servers, target, count)
                if round_number:  # the first round warms up
                    report.add(rate, form, count / took / 1e6)
                    report.add(Metric(name, "MB/s"), form, megabytes / took)
                    report.add(Metric(f"{name}, CPU", "s/M records"), form, max(cpu, 0.01) / count * 1e6)
        delete_topics(servers, [f"target-{number}-{round_number}-{form}" for round_number in range(wanted.rounds + 1) for form in forms])


def check_count(servers: str, topic: str, count: int) -> None:
    """All of them wrote everything."""
    found = sum(Ends(servers).of(topic).values())
    assert found == count, f"{topic} has {found} of {count} records"


def delete_topics(servers: str, topics: list[str]) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, **QUIET})  # a client that is gone answers nothing
    for deleted in admin.delete_topics(topics).values():
        deleted.result(60)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report, forms, settings = Report("Migration", PLAIN), [OTTLA, PLAIN, PLAIN_JVM], {"spark.driver.memory": "2g"}
    try:
        settings["spark.jars"] = ",".join(map(str, fetch_connector(CACHE)))
    except ToolMissing as missing:
        print(f"{PLAIN_JVM}: left out, {missing}", file=sys.stderr)
        forms.remove(PLAIN_JVM)
    with running_peers([name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]) as running:
        spark = session("benchmark", master="local[2,1]", settings=settings)
        for broker in running:
            measure(report, spark, forms, broker, wanted)
        spark.stop()
    report.note("ottla: what `ottla migrate` runs; the ratios are to a plain read-and-write by format('ottla')")
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
