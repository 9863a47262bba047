"""A plain consumer as a program, beside Spark in one group: a topic into a keyed table, then a commit; ends at SIGTERM, or is killed.

It is confluent-kafka's, which knows nothing of Spark. At SIGTERM it leaves with everything committed that it has processed.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from trials.kills.tables import KeyedTable

RECORDS_MAX: Final = 500
WAIT_S: Final = 0.1


class PlainJob(NamedTuple):
    """What to do, as the program's arguments; `directory` holds the table; `assignor` by Kafka's name."""

    servers: str
    topic: str
    group: str
    directory: str
    assignor: str
    session_ms: str
    heartbeat_ms: str


def main(arguments: list[str]) -> None:
    """Run until SIGTERM, or until killed."""
    from confluent_kafka import Consumer

    job = PlainJob(*arguments)
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    table = KeyedTable(Path(job.directory))
    consumer = Consumer(settings(job))
    consumer.subscribe([job.topic], on_revoke=lambda *_: commit(consumer))
    while not is_over.is_set():
        messages = [message for message in consumer.consume(RECORDS_MAX, WAIT_S) if not message.error()]
        if messages:
            table.write(row(message) for message in messages)
            commit(consumer)
    consumer.close()


def settings(job: PlainJob) -> dict[str, str | int | bool]:
    """The consumer's properties."""
    return {
        "bootstrap.servers": job.servers,
        "group.id": job.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": job.assignor,
        "session.timeout.ms": int(job.session_ms),
        "heartbeat.interval.ms": int(job.heartbeat_ms),
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def row(message: Any) -> tuple[str, int, int, str]:
    """A record as the table has it."""
    return message.topic(), message.partition(), message.offset(), message.value().decode()


def commit(consumer: Any) -> None:
    """Commit what was processed, before anything else is read. What is not committed is read again, by this member or another."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            sys.stderr.write(f"not committed: {error}\n")
            sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
