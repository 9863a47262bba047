"""What it costs a streaming query to be a member of its group: the median time of a trigger in member mode, beside commit mode.

The same topic and load for both, one after the other in one session of local[2], round by round, each time a new query in a new group with
a sink that throws rows away; triggers are back to back. Records of 100 B come in at 200 and at 20,000 a second, into 1 and into 12
partitions: `triggerExecution` of the query's progress. Without records Spark reports no progress: there it is the time from one call of
`latestOffset` to the next, with the pause between them (spark.sql.streaming.pollingDelay) set to nothing.
"""

import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Producer
from peers import APACHE_KAFKA, OTTLA, QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_most_times

from ottla.spark import session
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.sessions import SMALL

COMMIT, MEMBER = "commit mode", "member mode"
TIMES_MAX = 1.1
RATES = (0, 200, 20_000)
PARTITIONS = (1, 12)
TRIGGERS, TRIGGERS_SMALL = 100, 3
TRIGGERS_BEFORE = 20
IDLE_TRIGGERS_TIMES = 5
STEP_S = 0.01
WAIT_S_MAX = 120
SETTINGS = {**SMALL, "spark.driver.memory": "1g", "spark.sql.streaming.pollingDelay": "0"}
SCHEMA = "value binary"


class Load(NamedTuple):
    """Records a second, and the partitions of their topic."""

    rate: int
    partitions: int

    @property
    def name(self) -> str:
        return f"{f'{self.rate:,} records/s' if self.rate else 'no records'}, {self.partitions} partition{'s' * (self.partitions > 1)}"

    @property
    def topic(self) -> str:
        return f"load-{self.rate}-{self.partitions}"


def timed(path: Path) -> type[OttlaDataSource]:
    """The format "ottla" as "timed": the seconds of a clock at each call of latestOffset go to the end of a file, as doubles."""
    name = str(path)

    class Timed(OttlaDataSource):
        @classmethod
        def name(cls) -> str:
            return "timed"

        def streamReader(self, schema: Any) -> Any:
            reader: Any = super().streamReader(schema)
            latest = reader.latestOffset

            def latest_offset(*given: Any) -> Any:
                with open(name, "ab") as file:
                    file.write(struct.pack("d", time.perf_counter()))
                return latest(*given)

            reader.latestOffset = latest_offset
            return reader

    return Timed


@contextmanager
def producing(servers: str, load: Load) -> Iterator[None]:
    """`load.rate` records a second, spread over the partitions, while the block runs."""
    producer, is_over = Producer({"bootstrap.servers": servers, **QUIET, "linger.ms": 5}), threading.Event()

    def run() -> None:
        began, sent = time.perf_counter(), 0
        while not is_over.wait(STEP_S):
            due = int((time.perf_counter() - began) * load.rate)
            for number in range(sent, due):
                producer.produce(load.topic, b"v" * 100, partition=number % load.partitions)
            sent = due
            producer.poll(0)

    thread = threading.Thread(target=run)
    if load.rate:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        if load.rate:
            thread.join()
        producer.flush(10)


def options(mode: str, servers: str, load: Load, group: str) -> dict[str, str]:
    every = {"kafka.bootstrap.servers": servers, "subscribe": load.topic, "group.id": group}
    return {**every, "ottla.group.mode": "member", "kafka.auto.offset.reset": "latest"} if mode == MEMBER else every


@contextmanager
def running(spark: Any, form: str, given: dict[str, str], checkpoint: Path) -> Iterator[Any]:
    rows = spark.readStream.format(form).schema(SCHEMA).options(**given).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def wait_for(query: Any, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"no {TRIGGERS_BEFORE} triggers in {WAIT_S_MAX} s: {query.lastProgress}"
        time.sleep(0.1)


def trigger_times(query: Any, count: int) -> list[dict[str, int]]:
    """What Spark reports of `count` triggers with records, in ms, after some that warm up."""
    seen: dict[int, dict[str, int]] = {}

    def enough() -> bool:
        seen.update({progress.batchId: progress.durationMs for progress in query.recentProgress if progress.numInputRows})
        return len(seen) >= TRIGGERS_BEFORE + count

    wait_for(query, enough)
    return [seen[batch] for batch in sorted(seen)[TRIGGERS_BEFORE:]]


def idle_times(query: Any, calls: Path, count: int) -> list[float]:
    """The ms from one idle trigger to the next, after some that warm up."""
    calls.write_bytes(b"")
    wait_for(query, lambda: calls.stat().st_size >= 8 * (TRIGGERS_BEFORE + count + 1))
    whole = calls.read_bytes()
    moments = [moment for (moment,) in struct.iter_unpack("d", whole[: len(whole) // 8 * 8])]
    return [(later - earlier) * 1000 for earlier, later in pairwise(moments[TRIGGERS_BEFORE:])]


def measure(report: Report, spark: Any, broker: Any, load: Load, wanted: Any, scratch: Path) -> None:
    metric = Metric(f"{broker.kind}: {load.name}", "ms", f"<= {TIMES_MAX}x", at_most_times(TIMES_MAX))
    if wanted.only not in metric.name:
        return
    triggers = TRIGGERS_SMALL if wanted.small else TRIGGERS
    make_topic(broker, load.topic, load.partitions)
    calls = scratch / f"{broker.kind}-{load.topic}"
    spark.dataSource.register(timed(calls))
    with producing(broker.bootstrap_servers, load):
        for number in range(wanted.rounds):
            # Who comes second finds warmer caches: they take turns.
            for mode in (COMMIT, MEMBER) if number % 2 == 0 else (MEMBER, COMMIT):
                name = f"{broker.kind}-{load.topic}-{mode.split()[0]}-{number}"
                given = options(mode, broker.bootstrap_servers, load, name)
                with running(spark, "ottla" if load.rate else "timed", given, scratch / name) as query:
                    if not load.rate:
                        report.add(metric, mode, median(idle_times(query, calls, IDLE_TRIGGERS_TIMES * triggers)))
                        continue
                    times = trigger_times(query, triggers)
                report.add(metric, mode, median(each["triggerExecution"] for each in times))
                if number == 0:
                    parts = {part: median(each.get(part, 0) for each in times) for part in times[0]}
                    words = ", ".join(f"{part} {value:.0f}" for part, value in sorted(parts.items()))
                    report.note(f"{broker.kind}, {load.name}, {mode}: {words} ms")


def main() -> None:
    wanted = arguments(__doc__, only=True)
    peers = [peer for peer in (OTTLA, APACHE_KAFKA) if peer in wanted.peers]
    report = Report("Member mode", rival=COMMIT, ours=MEMBER)
    spark = session("benchmark", master="local[2]", settings=SETTINGS)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch, running_peers(peers) as brokers:
        for broker in brokers:
            for partitions in PARTITIONS:
                for rate in RATES:
                    measure(report, spark, broker, Load(rate, partitions), wanted, Path(scratch))
        spark.stop()
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
