"""One consumer of the chaos as a process: reads, processes (a line in its journal), then commits; ends in order on SIGTERM.

It does what a careful user does with each library: it commits by hand after the work, and reads again after a refused commit.
`python -m trials.chaos.worker LIBRARY SERVERS GROUP TOPIC ASSIGNOR JOURNAL`
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

POLL_S = 0.2
RECORDS_MAX = 200
SESSION_MS = 2_000
"""Shorter than the time between two moves of the coordinator: each move restarts every session, also those of dead members."""
HEARTBEAT_MS = 300
LOOKUP_S = 5


class Job(NamedTuple):
    """A worker's command-line arguments."""

    library: str
    servers: str
    group: str
    topic: str
    assignor: str
    journal: str


class Journal:
    """Processed records as lines `partition offset value`, trouble as `! text`, misplaced records as `? text`.

    A line is in the kernel's hands when `write` returns.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def processed(self, records: Iterable[tuple[int, int, bytes]]) -> None:
        """The work itself."""
        text = "".join(f"{partition} {offset} {value.decode()}\n" for partition, offset, value in records)
        os.write(self._descriptor, text.encode())

    def misplaced(self, text: str) -> None:
        """A record that came at another offset than it had to."""
        os.write(self._descriptor, f"? {text}\n".encode())

    def trouble(self, error: object) -> None:
        """What a library raised: such as a commit after the generation is gone."""
        os.write(self._descriptor, f"! {error!r}\n".replace("\\n", " ").encode())


class Positions:
    """Whether records come where they have to: from the committed offset on after each assignment, and then one after the other.

    `committed` gives the committed offsets of partitions, and raises when it cannot; `report` gets a text for each misplaced record.
    """

    def __init__(self, committed: Callable[[Sequence[int]], Mapping[int, int]], report: Callable[[str], None]) -> None:
        self._committed = committed
        self._report = report
        self._next: dict[int, int] = {}

    def assigned(self, partitions: Sequence[int]) -> None:
        """These begin at their committed offsets. Where those are not to be had, the next record says where they are."""
        for partition in partitions:
            self._next.pop(partition, None)
        self._next.update(self._lookup(partitions))

    def check(self, partition: int, offset: int) -> None:
        """A record comes. One behind the expected offset may be right in a member that was frozen: others have committed meanwhile."""
        expected = self._next.get(partition, offset)
        self._next[partition] = offset + 1
        if offset != expected and not expected <= offset <= self._lookup([partition]).get(partition, offset):
            self._report(f"{partition} at {offset} instead of {expected}")

    def _lookup(self, partitions: Sequence[int]) -> Mapping[int, int]:
        try:
            return self._committed(partitions)
        except Exception:  # noqa: BLE001 - whatever a client raises while its brokers come and go
            return {}


class Stop:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True


def _membership(job: Job, *, is_kip_848: bool) -> dict[str, Any]:
    """The settings of a member in the manner of librdkafka's; with the consumer protocol the broker has the timeouts and assigns."""
    if is_kip_848:
        return {"group.protocol": "consumer"}
    return {"partition.assignment.strategy": job.assignor, "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}


def confluent(job: Job, journal: Journal, stop: Stop, *, is_kip_848: bool = False) -> None:
    """confluent-kafka (librdkafka)."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    settings: dict[str, Any] = {
        "bootstrap.servers": job.servers,
        "group.id": job.group,
        "client.id": job.library,
        **_membership(job, is_kip_848=is_kip_848),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([job.topic])
    must_commit = False  # as in ottla: partitions are kept when a commit is refused
    while not stop.is_set:
        try:
            messages = [message for message in consumer.consume(RECORDS_MAX, POLL_S) if message.error() is None]
            if messages:
                journal.processed((int(each.partition() or 0), int(each.offset() or 0), each.value() or b"") for each in messages)
                must_commit = True
            if must_commit:
                consumer.commit(asynchronous=False)
                must_commit = False
        except KafkaException as error:
            journal.trouble(error)
            must_commit = must_commit and error.args[0].code() != KafkaError._NO_OFFSET
    consumer.close()


def ottla(job: Job, journal: Journal, stop: Stop, *, is_kip_848: bool = False) -> None:
    """ottla.Consumer."""
    from ottla import Consumer, KafkaError, KafkaException, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": job.servers,
        "group.id": job.group,
        "client.id": job.library,
        **_membership(job, is_kip_848=is_kip_848),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer(settings)

    def committed(partitions: Sequence[int]) -> dict[int, int]:
        found = consumer.committed([TopicPartition(job.topic, each) for each in partitions], timeout=LOOKUP_S)
        return {each.partition: max(each.offset, 0) for each in found}

    positions = Positions(committed, journal.misplaced)
    consumer.subscribe([job.topic], on_assign=lambda _, partitions: positions.assigned([each.partition for each in partitions]))
    must_commit = False  # a member of a cooperative group keeps its partitions when a commit is refused, and does not read them again
    while not stop.is_set:
        try:
            messages = [message for message in consumer.consume(RECORDS_MAX, POLL_S) if message.error() is None]
            for message in messages:
                positions.check(int(message.partition() or 0), int(message.offset() or 0))
            if messages:
                journal.processed((int(each.partition() or 0), int(each.offset() or 0), each.value() or b"") for each in messages)
                must_commit = True
            if must_commit:
                consumer.commit(asynchronous=False)
                must_commit = False
        except KafkaException as error:
            journal.trouble(error)
            must_commit = must_commit and error.args[0].code() != KafkaError._NO_OFFSET
    consumer.close()


def break_connections() -> None:
    """Shut down every TCP connection of this process (Linux)."""
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as opened:
                if opened.family == socket.AF_INET:
                    opened.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # no socket, not connected, or closed meanwhile


def kafka_python(job: Job, journal: Journal, stop: Stop) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

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
    consumer.partitions_for_topic(job.topic)  # kafka-python 3.0 would join again for them, and forgets a join in whose midst a poll ends
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


CLASSIC: dict[str, Callable[[Job, Journal, Stop], None]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ottla": ottla,
}
"""Members of the classic protocol, by library."""
KIP_848: dict[str, Callable[[Job, Journal, Stop], None]] = {
    "confluent-kip-848": partial(confluent, is_kip_848=True),
    "ottla-kip-848": partial(ottla, is_kip_848=True),
}
"""Members of the consumer protocol."""
LIBRARIES = CLASSIC | KIP_848


def main(arguments: list[str]) -> None:
    """Run until SIGTERM; SIGUSR1 breaks all connections."""
    signal.signal(signal.SIGUSR1, lambda _number, _frame: break_connections())
    job = Job(*arguments)
    LIBRARIES[job.library](job, Journal(job.journal), Stop())


if __name__ == "__main__":
    main(sys.argv[1:])
