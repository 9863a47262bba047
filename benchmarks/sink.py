"""Spark writing Kafka: format("ottla") beside the JVM connector, format("kafka"), in one session of local[2], to both brokers.

Rows a second and CPU seconds a million rows of batch writes, 100 B and 1 kB, with keys, as either sink does it by default. CPU seconds are
those of the JVM and of its Python workers together; the brokers' are not in them.
"""

import sys
import time
from typing import Any

from peers import APACHE_KAFKA, OTTLA, arguments, make_topic, running_peers
from report import Metric, Report
from spark import CACHE, FORMATS, JVM, OURS

from ottla.cli.processes import ToolMissing
from ottla.spark import session
from tests.support.processes import cpu_seconds
from tests.support.reference.maven import fetch_connector

PARTITIONS = 4
SIZES, SIZES_SMALL = ((100, 2_000_000), (1_000, 300_000)), ((100, 4_000), (1_000, 2_000))


def measure(report: Report, spark: Any, forms: list[str], broker: Any, wanted: Any) -> None:
    pid = spark.sparkContext._gateway.proc.pid
    for size, count in SIZES_SMALL if wanted.small else SIZES:
        name = f"{broker.kind}: {size:,} B written"
        if wanted.only not in name:
            continue
        topic = f"written-{size}"
        make_topic(broker, topic, PARTITIONS)
        # Made once: what is measured is writing.
        rows = spark.range(0, count, 1, PARTITIONS).selectExpr(
            "cast(id % 10000 as string) key", f"rpad(cast(id as string), {size}, 'x') value"
        )
        rows = rows.cache()
        assert rows.count() == count
        for number in range(wanted.rounds + 1):
            for form in forms:
                writer = rows.write.format(FORMATS[form]).mode("append").option("topic", topic)
                cpu, begin = cpu_seconds(pid), time.perf_counter()
                writer.option("kafka.bootstrap.servers", broker.bootstrap_servers).save()
                took, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
                if number:  # the first round warms up
                    report.add(Metric(name, "M rows/s"), form, count / took / 1e6)
                    report.add(Metric(f"{name}, CPU", "s/M rows"), form, max(cpu, 0.01) / count * 1e6)
        rows.unpersist(blocking=True)


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report, forms, settings = Report("Spark's sink", JVM), [OURS, JVM], {"spark.driver.memory": "2g"}
    try:
        settings["spark.jars"] = ",".join(map(str, fetch_connector(CACHE)))
    except ToolMissing as missing:
        print(f"{JVM}: left out, {missing}", file=sys.stderr)
        forms.remove(JVM)
    with running_peers([name for name in wanted.peers if name in (OTTLA, APACHE_KAFKA)]) as running:
        spark = session("benchmark", master="local[2]", settings=settings)
        for broker in running:
            measure(report, spark, forms, broker, wanted)
        spark.stop()
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
