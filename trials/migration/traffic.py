"""What happens to the source: it is filled, a producer goes on writing, transactions commit and abort, a consumer reads and commits."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ottla.testing.waiting import wait_until
from trials.migration.records import FIRST_TIME_MS, QUIET, Record, RecordMaker, partitions_of, retried

CHUNK: Final = 10_000
QUEUED_MAX: Final = 300_000
FLUSH_S_MAX: Final = 120
IN_A_TRANSACTION: Final = 20
PERIOD_S: Final = 0.05
PERIODS_A_TRANSACTION: Final = 10
PRODUCER: Final = {
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    "linger.ms": 20,
    "queue.buffering.max.messages": 1_000_000,
    "compression.type": "lz4",
}


class Writer:
    """Writes records to a topic; `failures` says what was not acknowledged. Records of a stream keep their order."""

    def __init__(self, servers: str, topic: str) -> None:
        from confluent_kafka import Producer

        self.failures: list[str] = []
        self._topic = topic
        self._client: Any = Producer({"bootstrap.servers": servers, "on_delivery": self._delivered, **PRODUCER, **QUIET})
        # A broker may need a moment to know a topic that was just made.
        wait_until(lambda: partitions_of(self._client, topic), f"topic {topic}")

    def write(self, records: list[Record]) -> None:
        """Queue the records, in their order."""
        # Not produce_batch: it has neither times nor headers.
        produce, topic = self._client.produce, self._topic
        for partition, _, key, value, time_ms, headers in records:
            produce(topic, value, key, partition, None, None, time_ms, [*headers] if headers else None)
        while len(self._client) > QUEUED_MAX:
            self._client.poll(0.05)
        self._client.poll(0)

    def flush(self) -> None:
        """Wait until each record is acknowledged."""
        if self._client.flush(FLUSH_S_MAX):
            self.failures.append(f"records were not acknowledged in {FLUSH_S_MAX} s")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(f"a record was not written: {error}")


class TransactionalWriter:
    """Writes transactions: those that commit have records of a maker, the others records that no reader may see."""

    def __init__(self, servers: str, topic: str, maker: RecordMaker, *, partitions: int) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._maker = maker
        self._partitions = partitions
        self._aborted = 0
        self._client: Any = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-trial", **QUIET})
        retried(lambda: self._client.init_transactions(30))

    def begin(self, *, will_commit: bool) -> None:
        """Write a transaction's records, and leave it open."""
        self._client.begin_transaction()
        records = self._maker.make(IN_A_TRANSACTION) if will_commit else [self._unseen() for _ in range(IN_A_TRANSACTION)]
        for each in records:
            self._client.produce(self._topic, each.value, each.key, each.partition, None, None, each.timestamp_ms, [*each.headers])
        assert self._client.flush(FLUSH_S_MAX) == 0, "a transaction's records were not acknowledged"

    def end(self, *, commits: bool) -> None:
        """Commit or abort the open transaction."""
        if commits:
            self._client.commit_transaction(30)
        else:
            self._client.abort_transaction(30)

    def _unseen(self) -> Record:
        self._aborted += 1
        return Record(self._aborted % self._partitions, -1, b"aborted", b"aborted:%d;" % self._aborted, FIRST_TIME_MS + self._aborted, ())


def fill(writer: Writer, maker: RecordMaker, count: int) -> None:
    """Write `count` records, and wait until they are acknowledged."""
    for done in range(0, count, CHUNK):
        writer.write(maker.make(min(CHUNK, count - done)))
    writer.flush()


class LiveWriter(threading.Thread):
    """Goes on writing until `close`: about `per_second` records, and with `transactions` two a second, every other one aborted."""

    def __init__(self, writer: Writer, maker: RecordMaker, transactions: TransactionalWriter | None, *, per_second: int) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        self._writer, self._maker, self._transactions = writer, maker, transactions
        self._each_period = max(1, int(per_second * PERIOD_S))
        self._is_over = threading.Event()
        self._writing = threading.Lock()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is on its way to the broker: one that is killed would take it twice, since the records are old.

        Apache Kafka forgets producers by their records' timestamps, as `ottla.spark.migration.writer` says.
        """
        with self._writing:
            self._writer.flush()
            yield

    def run(self) -> None:
        period = 0
        try:
            while not self._is_over.wait(PERIOD_S):
                with self._writing:
                    self._writer.write(self._maker.make(self._each_period))
                    self._transact(period)
                period += 1
            while self._transactions is not None and period % PERIODS_A_TRANSACTION:
                self._transact(period)
                period += 1
            self._writer.flush()
        except BaseException as error:  # noqa: BLE001 (raised again by close)
            self.failure = error

    def _transact(self, period: int) -> None:
        """A transaction is open for half of the time, so that the last stable offset is behind the end."""
        if self._transactions is not None:
            number, phase = divmod(period, PERIODS_A_TRANSACTION)
            if phase == 0:
                self._transactions.begin(will_commit=number % 2 == 0)
            elif phase == PERIODS_A_TRANSACTION // 2:
                self._transactions.end(commits=number % 2 == 0)

    def close(self) -> None:
        """Stop writing; everything is acknowledged then. Raises what failed."""
        self._is_over.set()
        self.join()
        if self.failure is not None:
            raise self.failure


class LiveConsumer(threading.Thread):
    """A member of a group that reads and commits until `close`, at most `per_second` records."""

    def __init__(self, servers: str, group: str, topic: str, *, per_second: int) -> None:
        super().__init__(daemon=True)
        self.read = 0
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "queued.max.messages.kbytes": 1_024,
        }
        self._topic = topic
        self._each_period = max(1, int(per_second * PERIOD_S))
        self._is_over = threading.Event()

    def run(self) -> None:
        from confluent_kafka import Consumer

        client: Any = Consumer({**self._settings, **QUIET})
        client.subscribe([self._topic])
        while not self._is_over.wait(PERIOD_S):
            self.read += sum(message.error() is None for message in client.consume(self._each_period, 0.01))
        client.close()

    def close(self) -> None:
        """Commit and leave the group."""
        self._is_over.set()
        self.join()


def group_positions(ends: Mapping[int, int]) -> dict[str, dict[int, int]]:
    """What three groups have committed: one is behind another in every partition, the third is behind in some, and has no commit in one."""
    return {
        "trial-ahead": {partition: end * 6 // 10 for partition, end in ends.items()},
        "trial-behind": {partition: end * (2 + partition % 3) // 10 for partition, end in ends.items()},
        "trial-crossing": {partition: end * (1, 8)[partition % 2] // 10 for partition, end in ends.items() if partition != max(ends)},
    }
