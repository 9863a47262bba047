"""One copier of the trial as a process: reads a batch, writes it to the output and commits its offsets, all in one transaction.

It does what a careful user does with each library: a transaction that fails is aborted, and the batch is read again from the committed
offsets; a producer that was fenced ends its process. It ends in order on SIGTERM.
`python -m trials.exactly_once.copier LIBRARY SERVERS GROUP INPUT OUTPUT PARTITIONS ID PARTITION SEED JOURNAL`
"""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from trials.chaos.worker import Stop

POLL_S = 0.2
BATCH_MAX = 40
SESSION_MS = 4_000
TRANSACTION_MS = 5_000
CALL_S = 20
ABORTED_ON_PURPOSE = 0.15
LINGER_S_MAX = 0.15
"""How long a transaction is kept open at most before it ends, so that faults meet it in every state."""


class Job(NamedTuple):
    """A copier's command-line arguments. `partition`: the only one that it reads; "" for a member of the group."""

    library: str
    servers: str
    group: str
    input: str
    output: str
    partitions: str
    transactional_id: str
    partition: str
    seed: str
    journal: str


class Copy(NamedTuple):
    """A record of the input."""

    partition: int
    offset: int
    value: str


class Journal:
    """What became of each transaction, as lines `outcome number`: begun, committed, aborted; trouble as `! text`."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.number = 0

    def begun(self) -> None:
        """One more transaction."""
        self.number += 1
        self._write("begun")

    def committed(self) -> None:
        """The broker said that the transaction is committed."""
        self._write("committed")

    def aborted(self) -> None:
        """The broker said that the transaction is aborted."""
        self._write("aborted")

    def _write(self, outcome: str) -> None:
        os.write(self._descriptor, f"{outcome} {self.number}\n".encode())

    def trouble(self, error: object) -> None:
        """What a library raised."""
        os.write(self._descriptor, f"! {error!r}\n".replace("\\n", " ").encode())


class Outputs:
    """Where copies go and what they say; and how transactions end, by the copier's own seed."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self._partitions = int(job.partitions)
        self._name = os.path.basename(os.path.dirname(job.journal))
        self._journal = journal
        self._rng = random.Random(job.seed)

    def of(self, copies: Iterable[Copy]) -> list[tuple[int, bytes]]:
        """Partition and value of each copy: the record that it is of, and the transaction that wrote it."""
        transaction = f"{self._name}/{self._journal.number}"
        return [
            ((copy.partition + copy.offset) % self._partitions, f"{copy.partition} {copy.offset} {copy.value} {transaction}".encode())
            for copy in copies
        ]

    def commits(self) -> bool:
        """Wait a little with the transaction open. Whether it is to be committed."""
        time.sleep(self._rng.random() * LINGER_S_MAX)
        return self._rng.random() >= ABORTED_ON_PURPOSE


def ends(copies: Iterable[Copy]) -> dict[int, int]:
    """The offset to commit for each partition."""
    found: dict[int, int] = {}
    for copy in copies:
        found[copy.partition] = max(found.get(copy.partition, 0), copy.offset + 1)
    return found


def confluent(job: Job, journal: Journal, stop: Stop) -> None:
    """confluent-kafka (librdkafka): its epoch stays (TV1), and it sends the group's generation (KIP-447)."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

    base: dict[str, Any] = {"bootstrap.servers": job.servers, "log_level": 0, "reconnect.backoff.max.ms": 500}
    consumer = Consumer(
        {
            **base,
            "group.id": job.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
        }
    )
    producer = Producer({**base, "transactional.id": job.transactional_id, "transaction.timeout.ms": TRANSACTION_MS, "linger.ms": 5})

    def patiently(call: Callable[..., object], *arguments: object) -> None:
        """Again while the library says that this is what to do."""
        while True:
            try:
                call(*arguments)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                journal.trouble(error)
            else:
                return

    outputs = Outputs(job, journal)
    patiently(producer.init_transactions, CALL_S)

    def rewind() -> None:
        """Read again from the committed offsets."""
        partitions = [TopicPartition(job.input, int(job.partition))] if job.partition else consumer.assignment()
        places: list[TopicPartition] = []
        if partitions:
            patiently(lambda: places.extend(consumer.committed(partitions, CALL_S)))
        at = [TopicPartition(job.input, each.partition, each.offset if each.offset >= 0 else OFFSET_BEGINNING) for each in places]
        if job.partition:
            consumer.assign(at)
        else:
            for place in at:
                consumer.seek(place)

    if job.partition:
        rewind()
    else:
        consumer.subscribe([job.input])
    while not stop.is_set:
        messages = [message for message in consumer.consume(BATCH_MAX, POLL_S) if message.error() is None]
        copies = [Copy(int(each.partition() or 0), int(each.offset() or 0), (each.value() or b"").decode()) for each in messages]
        if not copies:
            continue
        try:
            journal.begun()
            producer.begin_transaction()
            for partition, value in outputs.of(copies):
                producer.produce(job.output, value, partition=partition)
            offsets = [TopicPartition(job.input, partition, offset) for partition, offset in ends(copies).items()]
            metadata = consumer.consumer_group_metadata()
            patiently(producer.send_offsets_to_transaction, offsets, metadata, CALL_S)
            if outputs.commits():
                patiently(producer.commit_transaction, CALL_S)
                journal.committed()
                continue
            patiently(producer.abort_transaction, CALL_S)
            journal.aborted()
        except KafkaException as error:
            journal.trouble(error)
            if not error.args[0].txn_requires_abort():
                raise
            patiently(producer.abort_transaction, CALL_S)
            journal.aborted()
        rewind()
    consumer.close()


def kafka_python(job: Job, journal: Journal, stop: Stop) -> None:
    """kafka-python: as confluent-kafka."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    servers = job.servers.split(",")
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        group_id=job.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        fetch_max_wait_ms=100,
        max_poll_records=BATCH_MAX,
    )
    producer = KafkaProducer(
        bootstrap_servers=servers, transactional_id=job.transactional_id, transaction_timeout_ms=TRANSACTION_MS, linger_ms=5
    )
    outputs = Outputs(job, journal)
    producer.init_transactions()

    def rewind() -> None:
        partitions = [TopicPartition(job.input, int(job.partition))] if job.partition else list(consumer.assignment())
        if job.partition:
            consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, consumer.committed(partition) or 0)

    if job.partition:
        rewind()
    else:
        consumer.subscribe([job.input])
    while not stop.is_set:
        found = consumer.poll(timeout_ms=int(POLL_S * 1000))
        copies = [Copy(each.partition, each.offset, each.value.decode()) for records in found.values() for each in records]
        if not copies:
            continue
        try:
            journal.begun()
            producer.begin_transaction()
            sent = [producer.send(job.output, value, partition=partition) for partition, value in outputs.of(copies)]
            offsets = {
                TopicPartition(job.input, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in ends(copies).items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            for each in sent:
                each.get(timeout=CALL_S)
            if outputs.commits():
                producer.commit_transaction()
                journal.committed()
                continue
        except KafkaError as error:
            journal.trouble(error)
        producer.abort_transaction()
        journal.aborted()
        rewind()
    consumer.close()
    producer.close()


def stable_offset(job: Job) -> int:
    """What is committed of the copier's partition, when nothing is pending."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    asking = Consumer({"bootstrap.servers": job.servers, "group.id": job.group, "isolation.level": "read_committed", "log_level": 0})
    try:
        while True:
            with contextlib.suppress(KafkaException):
                (found,) = asking.committed([TopicPartition(job.input, int(job.partition))], CALL_S)
                if found.error is None:
                    return max(found.offset, 0)
    finally:
        asking.close()


def aiokafka(job: Job, journal: Journal, stop: Stop) -> None:
    """aiokafka: it sends no generation, and so is only safe with an id for each partition."""
    asyncio.run(_aiokafka(job, journal, stop))


async def _aiokafka(job: Job, journal: Journal, stop: Stop) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.servers,
        group_id=job.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        fetch_max_wait_ms=100,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=job.servers, transactional_id=job.transactional_id, transaction_timeout_ms=TRANSACTION_MS, linger_ms=5
    )
    outputs = Outputs(job, journal)
    await producer.start()
    await consumer.start()
    partition = TopicPartition(job.input, int(job.partition))
    consumer.assign([partition])

    async def rewind() -> None:
        # Its own `committed` looks at no error but those of partitions: of a coordinator that has moved, it makes a group without offsets.
        consumer.seek(partition, await asyncio.to_thread(stable_offset, job))

    await rewind()
    while not stop.is_set:
        found: Mapping[Any, Sequence[Any]] = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH_MAX)
        copies = [Copy(each.partition, each.offset, each.value.decode()) for records in found.values() for each in records]
        if not copies:
            continue
        try:
            journal.begun()
            await producer.begin_transaction()
            sent = [await producer.send(job.output, value, partition=partition) for partition, value in outputs.of(copies)]
            await producer.send_offsets_to_transaction({partition: ends(copies)[partition.partition]}, job.group)
            await asyncio.gather(*sent)
            if outputs.commits():
                await producer.commit_transaction()
                journal.committed()
                continue
        except KafkaError as error:
            journal.trouble(error)
        await producer.abort_transaction()
        journal.aborted()
        await rewind()
    await consumer.stop()
    await producer.stop()


LIBRARIES: dict[str, Callable[[Job, Journal, Stop], None]] = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
WITH_GENERATION = ("confluent", "kafka-python")


def main(arguments: list[str]) -> None:
    """Run until SIGTERM; what a library raises that its user cannot go on with ends the process."""
    job = Job(*arguments)
    journal = Journal(job.journal)
    try:
        LIBRARIES[job.library](job, journal, Stop())
    except Exception as error:
        journal.trouble(error)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
