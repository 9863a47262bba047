"""A broker, a producer that goes on, a streaming query as a process, and somebody who watches its group: to be hurt from a seed and judged.

`hurt` kills one of them at a random moment, puts it back, waits until the query has processed what was written by then, and says what is
wrong. What the operating system makes of a moment differs from run to run; the seed draws the moments and the victims.
"""

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import Failure
from ottla.consumer.errors import ClientError
from ottla.core.errors import PeerError
from ottla.core.model import TopicPartition
from ottla.testing.process import BrokerProcess, ServerProcess
from ottla.testing.process_tree import command, descendants, kill
from ottla.testing.raw_client import RawClient
from ottla.testing.streams.driver import Job
from ottla.testing.streams.files import Table, processed_offsets
from ottla.testing.streams.oracle import Look, Offsets, Place, invented, wrong_commits, wrong_rows

CREATE_TOPICS: Final = 19
TOPIC: Final = "flights"
GROUP: Final = "flights-table"
PARTITIONS: Final = 4
RECORDS_PER_SECOND: Final = 200
LOOK_EVERY_S: Final = 0.05
ASK_MS_MAX: Final = 1_000
PROGRESS_S_MAX: Final = 300
"""Within so long, also on a busy machine, the query goes on after anything was killed."""
BEFORE_KILL_S: Final = (0.0, 1.5)
BROKER_AWAY_S: Final = (0.0, 1.5)
VICTIMS: Final = ("worker", "broker", "driver")
WORKERS: Final = {"python_streaming_source_runner": "the one that plans", "pyspark.worker": "one that reads, or their parent"}
"""Spark's Python processes that have to do with a running query, by how their command lines end; the others have done their work."""


class Hurt(NamedTuple):
    """One kill: who and when, in words, how long until the query had caught up, and what was found wrong."""

    what: str
    back_after_s: float
    records: int
    looks: int
    wrong: list[str]


class Producer(threading.Thread):
    """Writes until `close`; `acknowledged` holds what the broker said it has."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[Place, str] = {}
        self.failures: list[str] = []
        self._servers = servers
        self._is_over = threading.Event()

    def run(self) -> None:
        from confluent_kafka import KafkaError, Message
        from confluent_kafka import Producer as Client

        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 10, "reconnect.backoff.max.ms": 500}
        client = Client({**settings, "log_level": 0})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"a record was not written: {error}")
            else:
                self.acknowledged[int(message.partition() or 0), int(message.offset() or 0)] = (message.value() or b"").decode()

        number = 0
        while not self._is_over.is_set():
            for _ in range(RECORDS_PER_SECOND // 20):
                client.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
                number += 1
            client.poll(0)
            self._is_over.wait(0.05)
        if client.flush(60):
            self.failures.append("records that the broker never acknowledged")

    def close(self) -> None:
        """Stop writing; every record is acknowledged then, or `failures` says otherwise."""
        self._is_over.set()
        self.join()

    def ends(self) -> dict[TopicPartition, int]:
        """The end of what is acknowledged in each partition."""
        ends: dict[TopicPartition, int] = {}
        for partition, offset in list(self.acknowledged):
            place = TopicPartition(TOPIC, partition)
            ends[place] = max(ends.get(place, 0), offset + 1)
        return ends


class Watcher(threading.Thread):
    """Looks at the group's offsets again and again, and at the checkpoint; keeps what is wrong and the last look."""

    def __init__(self, servers: str, checkpoint: Path) -> None:
        super().__init__(daemon=True)
        self.committed: Offsets = {}
        self.looks = 0
        self.wrong: list[str] = []
        self._admin = AdminClient(servers, timeout_ms=ASK_MS_MAX)
        self._checkpoint = checkpoint
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            try:
                committed = self._admin.committed([GROUP])[GROUP]
            except (ClientError, PeerError, OSError):  # the broker is away: that is the point
                continue
            if isinstance(committed, Failure):
                continue
            look = Look({partition: each.offset for partition, each in committed.items()}, processed_offsets(self._checkpoint))
            self.wrong += wrong_commits(self.committed, look)
            self.committed = look.committed
            self.looks += 1
        self._admin.close()

    def close(self) -> None:
        """Look no more."""
        self._is_over.set()
        self.join()


class World:
    """As a context manager: the query runs, and records come. The broker runs already; `directory` is new. `source`: see streams.driver."""

    def __init__(self, broker: BrokerProcess, seed: int, directory: Path, *, source: str = "ottla") -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._directory = directory
        self._source = source
        self._table = Table(directory / "table")
        self._driver: ServerProcess | None = None

    def __enter__(self) -> "World":
        self._directory.mkdir(parents=True)
        servers = self._broker.bootstrap_servers
        with RawClient(servers) as client:
            topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
            (created,) = client.call(CREATE_TOPICS, 5, topics=[topic]).topics
            assert created.error_code == 0, created
        self._start_driver()
        self._producer = Producer(servers)
        self._watcher = Watcher(servers, self._directory / "checkpoint")
        self._producer.start()
        self._watcher.start()
        self._wait_until(lambda: len(self._producer.ends()) == PARTITIONS)
        return self

    def __exit__(self, *error: object) -> None:
        self._producer.close()
        self._watcher.close()
        self._kill_driver()

    @property
    def log(self) -> Path:
        """What the query's process said."""
        return self._directory / "driver.log"

    def hurt(self, victim: str | None = None) -> Hurt:
        """Kills the query's driver, one of its workers, or the broker (None: one of them), and judges once the query has caught up."""
        self._wait_until_processed(self._producer.ends())
        looks, failed = self._watcher.looks, self._failed_queries()
        victim = victim or self._random.choice(VICTIMS)
        after_s = self._random.uniform(*BEFORE_KILL_S)
        time.sleep(after_s)
        what = {"driver": self._hurt_driver, "worker": self._hurt_worker, "broker": self._hurt_broker}[victim]()
        began, written = time.monotonic(), len(self._producer.acknowledged)
        # What is written from now on nobody can have processed before the kill.
        self._wait_until(lambda: len(self._producer.acknowledged) >= written + RECORDS_PER_SECOND // 2)
        self._wait_until_processed(self._producer.ends())
        took_s = time.monotonic() - began
        restarts = self._failed_queries() - failed if victim != "driver" else 0
        words = f"{what} after {after_s:.2f} s" + (f", query restarted {restarts}x" if restarts else "")
        return Hurt(words, took_s, len(self._producer.acknowledged), self._watcher.looks - looks, self._judge())

    def leave(self) -> list[str]:
        """Kills the query's driver at a random moment for good; what is wrong with what it leaves behind."""
        time.sleep(self._random.uniform(*BEFORE_KILL_S))
        self._kill_driver()
        looks = self._watcher.looks
        self._wait_until(lambda: self._watcher.looks > looks + 1)
        return self._judge()

    def finish(self) -> list[str]:
        """Lets the query come to the end of all that was written; what is wrong then, everything told."""
        self._producer.close()
        self._wait_until_processed(self._producer.ends())
        return self._judge() + invented(self._producer.acknowledged, self._table.rows())

    # --- the victims

    def _hurt_driver(self) -> str:
        self._kill_driver()
        self._start_driver()
        return "driver killed"

    def _hurt_worker(self) -> str:
        self._wait_until(lambda: bool(self._workers()))  # a query that has just begun anew has none for a moment
        pid = self._random.choice(self._workers())
        what = next(words for end, words in WORKERS.items() if command(pid).endswith(end))
        kill(pid)
        return f"worker killed ({what})"

    def _workers(self) -> list[int]:
        assert self._driver is not None
        return [pid for pid in descendants(self._driver.pid) if command(pid).endswith(tuple(WORKERS))]

    def _hurt_broker(self) -> str:
        self._broker.kill()
        away_s = self._random.uniform(*BROKER_AWAY_S)
        time.sleep(away_s)
        self._broker.start()
        return f"broker killed, away for {away_s:.2f} s,"

    def _start_driver(self) -> None:
        job = Job(self._broker.bootstrap_servers, TOPIC, GROUP, str(self._directory), self._source)
        self._driver = ServerProcess([sys.executable, "-m", "ottla.testing.streams.driver", *job], log_path=self.log)

    def _kill_driver(self) -> None:
        """The program, its Java process and all workers, so that nothing can finish what it was doing; nothing when there is none."""
        if self._driver is not None:
            for pid in descendants(self._driver.pid):
                kill(pid)
            self._driver.kill()
            self._driver = None

    # --- the judgement

    def _judge(self) -> list[str]:
        wrong, self._watcher.wrong = self._watcher.wrong, []
        committed = self._watcher.committed
        return wrong + self._producer.failures + wrong_rows(dict(self._producer.acknowledged), self._table.rows(), committed)

    def _failed_queries(self) -> int:
        return self.log.read_text(errors="replace").count("the query failed: ")

    def _wait_until_processed(self, ends: Offsets) -> None:
        """Until the group has committed `ends`."""
        self._wait_until(lambda: all(self._watcher.committed.get(partition, 0) >= offset for partition, offset in ends.items()))

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Raises AssertionError with the driver's last words when that takes too long."""
        deadline = time.monotonic() + PROGRESS_S_MAX
        while not condition():
            assert time.monotonic() < deadline, f"no progress in {PROGRESS_S_MAX} s:\n{self.log.read_text(errors='replace')[-4000:]}"
            time.sleep(0.02)
