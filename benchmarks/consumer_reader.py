"""One reader of consumer.py, in a process of its own: reads two topics from their beginning, and prints what the second one took, as JSON.

python consumer_reader.py READER BOOTSTRAP_SERVERS PARTITIONS WARM_UP_TOPIC WARM_UP_COUNT TOPIC COUNT
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AT_ONCE = 500
SETTLE_SECONDS = 0.7
"""Longer than the 500 ms that a Fetch waits at the end of the first topic: the second one would wait for it, whatever the client."""
GROUP = "benchmark"
# librdkafka fetches again a second after its queue was full, unless it is told otherwise; it does not compare checksums by default.
LIBRDKAFKA = {"fetch.queue.backoff.ms": 1, "check.crcs": True, "log_level": 0}
CONFIG = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}


class Sums:
    """What the application adds up."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.offsets = self.value_bytes = 0


def confluent_style(module: Any, config: dict[str, Any], read: Callable[[Any, Sums], None]) -> Callable[[str, int, Sums], None]:
    """A reader with confluent-kafka's interface."""
    consumer = module.Consumer(config)

    def run(topic: str, partitions: int, sums: Sums) -> None:
        consumer.assign([module.TopicPartition(topic, partition, 0) for partition in range(partitions)])
        read(consumer, sums)
        consumer.unassign()

    return run


def poll(consumer: Any, sums: Sums) -> None:
    left, offsets, value_bytes = sums.left, 0, 0
    while left:
        message = consumer.poll(10.0)
        if message.error():
            raise SystemExit(str(message.error()))
        offsets += message.offset()
        value_bytes += len(message.value())
        left -= 1
    sums.offsets, sums.value_bytes = offsets, value_bytes


def consume(consumer: Any, sums: Sums) -> None:
    left, offsets, value_bytes = sums.left, 0, 0
    while left:
        messages = consumer.consume(min(AT_ONCE, left), 10.0)
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
            offsets += message.offset()
            value_bytes += len(message.value())
        left -= len(messages)
    sums.offsets, sums.value_bytes = offsets, value_bytes


def poll_arrow(consumer: Any, sums: Sums) -> None:
    import pyarrow.compute as pc

    while sums.left:
        batch = consumer.poll_arrow(timeout=10.0)
        sums.offsets += pc.sum(batch.column("offset")).as_py()
        sums.value_bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py()
        sums.left -= batch.num_rows


def kafka_python(bootstrap_servers: str) -> Callable[[str, int, Sums], None]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=GROUP, enable_auto_commit=False)

    def run(topic: str, partitions: int, sums: Sums) -> None:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        while sums.left:
            for records in consumer.poll(timeout_ms=10_000, max_records=AT_ONCE).values():
                for record in records:
                    sums.offsets += record.offset
                    sums.value_bytes += len(record.value)
                sums.left -= len(records)
        consumer.unsubscribe()

    return run


def asynchronous(module: Any, class_name: str, bootstrap_servers: str, *, is_many: bool) -> Callable[[str, int, Sums], None]:
    """A reader with aiokafka's interface: both topics in one event loop each."""
    from aiokafka import TopicPartition

    async def read(topic: str, partitions: int, sums: Sums) -> None:
        consumer = getattr(module, class_name)(bootstrap_servers=bootstrap_servers, group_id=GROUP, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        await consumer.seek_to_beginning()
        while sums.left:
            if is_many:
                for records in (await consumer.getmany(timeout_ms=10_000, max_records=AT_ONCE)).values():
                    for record in records:
                        sums.offsets += record.offset
                        sums.value_bytes += len(record.value)
                    sums.left -= len(records)
            else:
                record = await consumer.getone()
                sums.offsets += record.offset
                sums.value_bytes += len(record.value)
                sums.left -= 1
        await consumer.stop()

    return lambda topic, partitions, sums: asyncio.run(read(topic, partitions, sums))


def reader_of(name: str, servers: str) -> Callable[[str, int, Sums], None]:
    client, _, way = name.rpartition("-")
    if name == "kafka-python-poll":
        return kafka_python(servers)
    if way in ("getone", "getmany"):
        import aiokafka

        import ottla

        module, class_name = (ottla, "AsyncConsumer") if client == "ottla" else (aiokafka, "AIOKafkaConsumer")
        return asynchronous(module, class_name, servers, is_many=way == "getmany")
    config = CONFIG | {"bootstrap.servers": servers}
    read = {"poll": poll, "consume": consume, "arrow": poll_arrow}[way]
    if client == "ottla":
        import ottla

        return confluent_style(ottla, config, read)
    import confluent_kafka

    return confluent_style(confluent_kafka, config | LIBRDKAFKA, read)


def peak_bytes() -> int:
    """The most memory that this process has had. Linux counts that of the process before it in `ru_maxrss`: the parent's, after a fork."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    name, servers, partitions, warm_up, warm_up_count, topic, count = sys.argv[1:]
    run = reader_of(name, servers)
    run(warm_up, int(partitions), Sums(int(warm_up_count)))
    time.sleep(SETTLE_SECONDS)
    sums = Sums(int(count))
    begin, cpu = time.perf_counter(), time.process_time()
    run(topic, int(partitions), sums)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
    found = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mb": peak_bytes() / (1 << 20)}
    print(json.dumps(found | {"offsets": sums.offsets, "value_bytes": sums.value_bytes}), flush=True)


if __name__ == "__main__":
    main()
