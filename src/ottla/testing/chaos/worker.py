"""One consumer of the chaos as a process: reads, processes (a line in its journal), then commits; ends in order on SIGTERM.

It does what a careful user does with each library: it commits by hand after the work, and reads again after a refused commit.
`python -m ottla.testing.chaos.worker LIBRARY SERVERS GROUP TOPIC ASSIGNOR JOURNAL`
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NamedTuple

POLL_S = 0.2
RECORDS_MAX = 200
SESSION_MS = 2_000
"""Shorter than the time between two moves of the coordinator: each move restarts every session, also those of dead members."""
HEARTBEAT_MS = 300


class Job(NamedTuple):
    """A worker's command-line arguments."""

    library: str
    servers: str
    group: str
    topic: str
    assignor: str
    journal: str


class Journal:
    """Processed records as lines `partition offset value`, trouble as `! text`: in the kernel's hands when `write` returns."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def processed(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """The work itself."""
        text = "".join(f"{partition} {offset} {value.decode()}\n" for partition, offset, value in records)
        os.write(self._descriptor, text.encode())

    def trouble(self, error: object) -> None:
        """What a library raised: such as a commit after the generation is gone."""
        os.write(self._descriptor, f"! {error!r}\n".replace("\\n", " ").encode())


class Stop:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


def confluent(job: Job, journal: Journal, stop: Stop) -> None:
    """confluent-kafka (librdkafka)."""
    from confluent_kafka import Consumer, KafkaException

    settings: dict[str, Any] = {
        "bootstrap.servers": job.servers,
        "group.id": job.group,
        "client.id": "confluent",
        "partition.assignment.strategy": job.assignor,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([job.topic])
    while not stop.is_set:
        try:
            messages = [message for message in consumer.consume(RECORDS_MAX, POLL_S) if message.error() is None]
            if messages:
                journal.processed((int(each.partition() or 0), int(each.offset() or 0), each.value() or b"") for each in messages)
                consumer.commit(asynchronous=False)
        except KafkaException as error:
            journal.trouble(error)
    consumer.close()


def kafka_python(job: Job, journal: Journal, stop: Stop) -> None:
    """kafka-python."""
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    from kafka import KafkaConsumer

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = KafkaConsumer(
        job.topic,
        bootstrap_servers=job.servers.split(","),
        group_id=job.group,
        client_id="kafka-python",
        partition_assignment_strategy=[assignors[job.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        fetch_max_wait_ms=100,
        max_poll_records=RECORDS_MAX,
    )
    while not stop.is_set:
        try:
            found = consumer.poll(timeout_ms=int(POLL_S * 1000))
            if found:
                journal.processed((each.partition, each.offset, each.value) for records in found.values() for each in records)
                consumer.commit()
        except KafkaError as error:
            journal.trouble(error)
    consumer.close()


def aiokafka(job: Job, journal: Journal, stop: Stop) -> None:
    """aiokafka."""
    asyncio.run(_aiokafka(job, journal, stop))


async def _aiokafka(job: Job, journal: Journal, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        job.topic,
        bootstrap_servers=job.servers.split(","),
        group_id=job.group,
        client_id="aiokafka",
        partition_assignment_strategy=[assignors[job.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        fetch_max_wait_ms=100,
    )
    while not stop.is_set:
        try:
            await consumer.start()
            break
        except KafkaError as error:
            journal.trouble(error)
            await asyncio.sleep(POLL_S)
    while not stop.is_set:
        try:
            found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
            if found:
                journal.processed((each.partition, each.offset, each.value) for records in found.values() for each in records)
                await consumer.commit()
        except KafkaError as error:
            journal.trouble(error)
    await consumer.stop()


LIBRARIES: dict[str, Callable[[Job, Journal, Stop], None]] = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}


def main(arguments: list[str]) -> None:
    """Run until SIGTERM."""
    job = Job(*arguments)
    LIBRARIES[job.library](job, Journal(job.journal), Stop())


if __name__ == "__main__":
    main(sys.argv[1:])
