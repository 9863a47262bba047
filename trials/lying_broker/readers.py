"""The program that reads from a lying broker, by `ottla.Consumer`, `ottla.AsyncConsumer` or Spark's source without Spark.

A line of JSON on its input says what to read; it says "all" when it has got every record. The next line ends the reading, and what came is
its answer. So many readings follow each other.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

PAUSE_S: Final = 1.0
"""Between attempts of an application that starts again after an error."""
ERRORS_MAX: Final = 20


class Reading:
    """What one reading gets. `task`: servers, topic, group, and how many records each partition has."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.servers, self.topic, self.group = task["servers"], task["topic"], task["group"]
        self.counts: list[int] = task["counts"]
        self.is_over = threading.Event()
        self.next_offsets = [0] * len(self.counts)
        self.wrong: list[str] = []
        self.errors: list[str] = []
        self.crash = ""
        self.close_s = 0.0
        self._is_told = False

    def got(self, partition: int, offset: int, value: bytes | None) -> None:
        """A record came."""
        expected = self.next_offsets[partition]
        if offset > expected:
            self.wrong.append(f"{partition}@{expected} to {offset - 1} skipped")
        if value != b"%d-%d" % (partition, offset):
            self.wrong.append(f"{partition}@{offset} is {str(value)[:40]}")
        self.next_offsets[partition] = max(expected, offset + 1)
        if not self._is_told and self.next_offsets == self.counts:
            self._is_told = True
            say({"all": True})

    def failed(self, error: BaseException) -> None:
        """The application got an error."""
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(f"{type(error).__name__}: {error}"[:200])
        if "the consumer has ended" in str(error):
            self.crash = str(error)

    def summary(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "next_offsets": self.next_offsets,
            "wrong": self.wrong[:5],
            "errors": self.errors,
            "crash": self.crash,
            "close_s": self.close_s,
        }


def say(what: dict[str, Any]) -> None:
    """Print a line of JSON at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def consume(reading: Reading) -> None:
    """By `ottla.Consumer`."""
    import ottla

    times = {"auto.commit.interval.ms": 200, "heartbeat.interval.ms": 500, "session.timeout.ms": 6_000, "request.timeout.ms": 2_000}
    names = {"bootstrap.servers": reading.servers, "group.id": reading.group, "auto.offset.reset": "earliest"}
    consumer = ottla.Consumer({**names, **times})
    consumer.subscribe([reading.topic])
    try:
        while not reading.is_over.is_set():
            try:
                message = consumer.poll(0.1)
            except ottla.KafkaException as error:
                reading.failed(error)
                continue
            if message is not None and message.error() is not None:
                reading.failed(Exception(str(message.error())))
            elif message is not None:
                reading.got(message.partition() or 0, message.offset() or 0, message.value())
    finally:
        began_s = time.monotonic()
        consumer.close()
        reading.close_s = time.monotonic() - began_s


def consume_async(reading: Reading) -> None:
    """By `ottla.AsyncConsumer`."""
    asyncio.run(_consume_async(reading))


async def _consume_async(reading: Reading) -> None:
    import ottla
    from ottla.client.async_consumer.errors import KafkaError

    while not reading.is_over.is_set():
        consumer = ottla.AsyncConsumer(
            reading.topic,
            bootstrap_servers=reading.servers,
            group_id=reading.group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            heartbeat_interval_ms=500,
            session_timeout_ms=6_000,
            request_timeout_ms=2_000,
        )
        try:
            start = asyncio.ensure_future(consumer.start())
            while not start.done() and not reading.is_over.is_set():
                await asyncio.wait([start], timeout=0.1)
            if not start.done():
                start.cancel()
                await asyncio.wait([start])
                continue
            start.result()
            while not reading.is_over.is_set():
                try:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        for record in records:
                            reading.got(record.partition, record.offset, record.value)
                except KafkaError as error:
                    reading.failed(error)
        except KafkaError as error:
            reading.failed(error)
            await asyncio.sleep(PAUSE_S)
        finally:
            began_s = time.monotonic()
            await consumer.stop()
            reading.close_s = time.monotonic() - began_s


def read_as_spark(reading: Reading) -> None:
    """By the batch reader and the tasks of Spark's source, again and again until all went well."""
    from ottla.client.errors import ClientError
    from ottla.protocol.errors import PeerError
    from ottla.spark.data_source import OttlaDataSource
    from ottla.spark.source.planning import DataLossError

    options = {"kafka.bootstrap.servers": reading.servers, "subscribe": reading.topic, "startingOffsets": "earliest"}
    times = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "3000", "kafkaConsumer.pollTimeoutMs": "3000"}
    source = OttlaDataSource({**options, **times})
    reader = source.reader(source.schema())
    while not reading.is_over.is_set():
        try:
            for task in reader.partitions():
                offsets: dict[int, list[tuple[int, bytes]]] = {}
                for batch in reader.read(task):
                    columns = (batch.column(batch.schema.names.index(name)).to_pylist() for name in ("partition", "offset", "value"))
                    for partition, offset, value in zip(*columns, strict=True):
                        offsets.setdefault(partition, []).append((offset, value))
                for partition, records in offsets.items():  # only a task that has ended counts
                    for offset, value in sorted(records):
                        reading.got(partition, offset, value)
                for each in getattr(task, "ranges", ()):
                    missing = set(range(each.start, each.end)) - {offset for offset, _ in offsets.get(each.partition, ())}
                    if missing:
                        reading.wrong.append(f"{each.partition}@{min(missing)} is missing in a task that went well")
        except (ClientError, PeerError, DataLossError) as error:
            reading.failed(error)
        reading.is_over.wait(PAUSE_S)


READERS: Final[dict[str, Callable[[Reading], None]]] = {"consumer": consume, "async": consume_async, "spark": read_as_spark}


def main(name: str) -> None:
    """Read as the lines of the input say, by the reader of this name."""
    from ottla.client.consumer.decoding import load

    if name == "spark":
        from ottla.spark.data_source import OttlaDataSource  # noqa: F401
    load()
    say({"ready": True})
    while line := sys.stdin.readline():
        reading = Reading(json.loads(line))
        thread = threading.Thread(target=_wait_for_end, args=(reading,))
        thread.start()
        try:
            READERS[name](reading)
        except Exception as error:  # noqa: BLE001 - whatever it is, a broker must not cause it
            reading.crash = repr(error)[:500]
        thread.join()
        say(reading.summary())


def _wait_for_end(reading: Reading) -> None:
    sys.stdin.readline()
    reading.is_over.set()


if __name__ == "__main__":
    main(sys.argv[1])
