"""How fast a compacted log is cleaned: megabytes of dirty log a second, of one cleaner thread.

Logs of 1,000,000 records of 100 bytes (key and value) in batches of 150, a fifth of them the latest of their keys, and one like
`__consumer_offsets`, a batch a record. The same segment files are laid before each peer. A cleaning is: reading all twice, the offset map
of 128 MB, writing what stays, making it durable, putting it in place. Apache Kafka's figure is the one that its cleaner logs. The plain
backend, which Ottla takes without the extra `arrow`, gets a tenth of the log. Beside a cleaning in a thread an event loop counts how late
it gets its turn.
"""

import asyncio
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from peers import APACHE_KAFKA, CACHE, OTTLA, QUIET, arguments
from report import Metric, Report

from ottla.cli.processes import ToolMissing
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.log.cleaner.backend import SLOT_BYTES, CleaningBackend, ReferenceBackend
from ottla.log.compiled.cleaning import CompiledBackend, load_kernels
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
from tests.support.kit.cleaning import clean_now
from tests.support.reference.apache_kafka import ApacheKafka

TARGET: tuple[str, Callable[[float, float | None], bool]] = (">= 200 MB/s", lambda ours, _: ours >= 200)
PLAIN = "ottla, reference backend"
SEGMENT_BYTES = 32 << 20
MAP_BYTES = 128 << 20
HELD_BACK_MS = 1 << 40
CLEANED_SECONDS_MAX = 120
KAFKA_CONFIG = {"log.cleaner.backoff.ms": "100"}
# The cleaner's own summary; the partition is in its first line, what was read in seconds in the second.
KAFKA_CLEANED = re.compile(
    r"Log cleaner thread 0 cleaned log (\S+) \(dirty section.*?\n\s*([\d.,]+) MB of log processed in ([\d.,]+) seconds", re.DOTALL
)


class Case(NamedTuple):
    """One kind of log: records, and how many of them lie in a batch."""

    name: str
    codec: Codec
    per_batch: int
    records: Callable[[random.Random, int], Iterator[tuple[bytes, bytes]]]
    share: float = 1.0
    has_target: bool = False

    @property
    def metric(self) -> Metric:
        return Metric(f"cleaner, {self.name}", "MB/s", *(TARGET if self.has_target else ()))

    @property
    def of_a_core(self) -> Metric:
        return Metric(f"the same by the thread's CPU time, {self.name}", "MB/s")

    @property
    def delay(self) -> Metric:
        return Metric(f"longest delay of an event loop beside it, {self.name}", "ms")


def plain_records(rng: random.Random, count: int) -> Iterator[tuple[bytes, bytes]]:
    """100 bytes each: a key of 16, and a value of 84 that looks like data (so that compressing it means something)."""
    for _ in range(count):
        number = rng.randrange(count // 5)
        value = f'{{"user": {number:08d}, "balance": {rng.randrange(10**9):09d}, "state": "{rng.choice(("open", "shut", "held"))}"}}'
        yield b"user-%011d" % number, value.encode().ljust(84)


def commits(rng: random.Random, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Committed offsets of 200 groups on 50 topics, as the group coordinator writes them."""
    for number in range(count):
        value = OffsetValue(offset=number, leader_epoch=3, metadata="", commit_timestamp_ms=1_700_000_000_000 + number)
        group, topic = f"service-{rng.randrange(200)}", f"orders-{rng.randrange(50)}"
        record = OffsetRecord(group_id=group, topic=topic, partition=rng.randrange(max(1, count // 50_000)), value=value)
        yield encode_key(record), encode_value(record)


CASES = (
    Case("100 B records", Codec.NONE, 150, plain_records, has_target=True),
    Case("100 B records, lz4", Codec.LZ4, 150, plain_records),
    Case("100 B records, zstd", Codec.ZSTD, 150, plain_records),
    Case("offsets, a batch a record", Codec.NONE, 1, commits, 0.5),
)


def make_log(case: Case, count: int, directory: Path, segment_bytes: int) -> int:
    """Write the log's segment files, the last one with a single record that no cleaner touches; the bytes of all others."""
    directory.mkdir(parents=True)
    now_ms = int(time.time() * 1000)
    segment, base_offset, offset, total, batch = bytearray(), 0, 0, 0, []

    def end() -> None:
        nonlocal segment, base_offset, total
        (directory / f"{base_offset:020d}.log").write_bytes(segment)
        total += len(segment)
        segment, base_offset = bytearray(), offset

    for key, value in case.records(random.Random(1), count):
        batch.append(Record(offset, now_ms + offset // 1000, key, value))
        offset += 1
        if len(batch) == case.per_batch:
            segment += encode_batch(batch, base_offset=batch[0].offset, codec=case.codec)
            batch = []
            if len(segment) + 2 * 150 * case.per_batch > segment_bytes:
                end()
    end()
    segment += encode_batch([Record(offset, now_ms, b"last", b"")], base_offset=offset)
    active_bytes = len(segment)
    offset += 1
    end()
    return total - active_bytes


@contextmanager
def opened(source: Path, scratch: Path) -> Iterator[tuple[OsFiles, PartitionLog]]:
    """A copy of the log, open and durable; it is removed at the end."""
    shutil.copytree(source, scratch / "root" / "t-0")
    files = OsFiles(scratch / "root")
    log = PartitionLog(files, "t-0", LogSettings(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES))
    try:
        log.open(int(time.time() * 1000))
        log.flush()
        yield files, log
    finally:
        log.close()
        shutil.rmtree(scratch / "root")


def clean_seconds(files: OsFiles, log: PartitionLog, backend: CleaningBackend) -> tuple[float, float]:
    """How long one whole cleaning takes: by the clock, and of this thread's CPU time."""
    begin, cpu = time.perf_counter(), time.thread_time()
    cleaned = clean_now(files, log, now_ms=int(time.time() * 1000), backend=backend, slots=MAP_BYTES // SLOT_BYTES)
    took = time.perf_counter() - begin, time.thread_time() - cpu
    assert cleaned.end_offset == log.log_end_offset - 1, cleaned
    return took


async def longest_delay_ms(work: Callable[[], object]) -> float:
    """The longest that a loop had to wait for its turn while `work` went on in a thread."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    longest = 0.0
    while not working.done():
        begin = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - begin - 0.001)
    await working
    return longest * 1000


def measure_ottla(report: Report, case: Case, log: Path, log_bytes: int, tenth: Path, tenth_bytes: int, scratch: Path) -> None:
    with opened(log, scratch) as (files, opened_log):
        seconds, cpu_seconds = clean_seconds(files, opened_log, CompiledBackend())
    report.add(case.metric, OTTLA, log_bytes / seconds / 1e6)
    report.add(case.of_a_core, OTTLA, log_bytes / cpu_seconds / 1e6)
    with opened(log, scratch) as (files, opened_log):
        report.add(case.delay, OTTLA, asyncio.run(longest_delay_ms(partial(clean_seconds, files, opened_log, CompiledBackend()))))
    with opened(tenth, scratch) as (files, opened_log):
        seconds, cpu_seconds = clean_seconds(files, opened_log, ReferenceBackend())
    report.add(case.metric, PLAIN, tenth_bytes / seconds / 1e6)
    report.add(case.of_a_core, PLAIN, tenth_bytes / cpu_seconds / 1e6)


def measure_kafka(report: Report, logs: dict[Case, Path], scratch: Path, rounds: int) -> None:
    """Kafka cleans `rounds` partitions of each case, one after the other, as soon as its topic's lag is taken away."""
    with ExitStack() as stack:
        kafka = ApacheKafka(scratch, cache_dir=CACHE, config=KAFKA_CONFIG)
        stack.callback(kafka.stop)
        kafka.start()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        config = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
        config["min.compaction.lag.ms"] = str(HELD_BACK_MS)
        names = {case: f"log-{number}" for number, case in enumerate(logs)}
        for future in admin.create_topics([NewTopic(name, rounds, 1, config=config) for name in names.values()]).values():
            future.result(30)
        kafka.stop()
        # As after a crash: Kafka reads all segments and makes their indexes.
        (kafka.log_dir / ".kafka_cleanshutdown").unlink()
        for case, log in logs.items():
            for number in range(rounds):
                directory = kafka.log_dir / f"{names[case]}-{number}"
                for file in directory.iterdir():
                    if file.name != "partition.metadata":
                        file.unlink()
                shutil.copytree(log, directory, dirs_exist_ok=True)
        kafka.start()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, **QUIET})
        for case, name in names.items():
            now = ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[now])
            admin.incremental_alter_configs([resource])[resource].result(30)
            for speed in kafka_speeds(kafka.log_path, name, rounds):
                report.add(case.metric, APACHE_KAFKA, speed)


def kafka_speeds(log_path: Path, topic: str, partitions: int) -> list[float]:
    """Kafka's own figures for all partitions of a topic, in MB (of 2^20 bytes there, of 10^6 here) a second."""
    deadline = time.monotonic() + CLEANED_SECONDS_MAX
    while True:
        found = {name: (mb, seconds) for name, mb, seconds in KAFKA_CLEANED.findall(log_path.read_text()) if name.startswith(f"{topic}-")}
        if len(found) == partitions:
            return [float(mb.replace(",", "")) * 1.048576 / float(seconds.replace(",", "")) for mb, seconds in found.values()]
        assert time.monotonic() < deadline, f"Apache Kafka cleaned {len(found)} of {partitions} partitions of {topic}"
        time.sleep(0.2)


def main() -> None:
    wanted = arguments(__doc__)
    count = 20_000 if wanted.small else 1_000_000
    segment_bytes = SEGMENT_BYTES // 50 if wanted.small else SEGMENT_BYTES
    report = Report("Cleaner")
    report.note("MB of dirty log a second, all passes, writing and syncing included; one cleaner thread; map of 128 MB")
    report.note("MB as they lie in the files: the lz4 log holds about 5 times as many bytes of records, the zstd log about 7 times")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
        root = Path(scratch)
        logs, sizes = {}, {}
        for number, case in enumerate(CASES):
            for part in (1, 10):
                logs[case, part] = root / f"{number}-{part}"
                sizes[case, part] = make_log(case, int(count * case.share) // part, logs[case, part], segment_bytes)
        if OTTLA in wanted.peers:
            load_kernels()
            for _ in range(wanted.rounds):
                for case in CASES:
                    measure_ottla(report, case, logs[case, 1], sizes[case, 1], logs[case, 10], sizes[case, 10], root)
        if APACHE_KAFKA in wanted.peers:
            try:
                whole = {case: logs[case, 1] for case in CASES}
                measure_kafka(report, whole, root / APACHE_KAFKA, wanted.rounds)
            except ToolMissing as missing:
                print(f"{APACHE_KAFKA}: left out, {missing}", file=sys.stderr)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
