"""A broker, a producer, a streaming query in a process of its own, and an observer of its group; processes are killed as a seed decides.

`kill_one` kills one of them at a random moment, starts it again, waits until the query has processed what was written by then, and returns
what is wrong. The seed decides moments and victims; what happens at such a moment still differs from run to run.
"""

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.errors import ClientError
from ottla.core.errors import PeerError
from ottla.core.model import TopicPartition
from ottla.testing.clients.topics import create_topic
from ottla.testing.processes.process import BrokerProcess, ServerProcess
from ottla.testing.processes.process_tree import command_line, kill_tree, process_tree
from ottla.testing.streaming_kills.driver import Job
from ottla.testing.streaming_kills.files import Table, processed_offsets
from ottla.testing.streaming_kills.oracle import GroupSnapshot, Offsets, Place, invented, wrong_commits, wrong_rows

TOPIC: Final = "flights"
GROUP: Final = "flights-table"
PARTITIONS: Final = 4
RECORDS_PER_SECOND: Final = 200
CHECK_EVERY_S: Final = 0.05
ASK_MS_MAX: Final = 1_000
PROGRESS_S_MAX: Final = 300
"""The longest time in which the query continues after a kill, also on a busy machine."""
BEFORE_KILL_S: Final = (0.0, 1.5)
BROKER_GONE_S: Final = (0.0, 1.5)
VICTIMS: Final = ("worker", "broker", "driver")
WORKERS: Final = {"python_streaming_source_runner": "the one that plans", "pyspark.worker": "one that reads, or their parent"}
"""Spark's Python processes of a running query, by the end of their command lines; the others have done their work."""


class Kill(NamedTuple):
    """One kill: which process and when, in words; how long until the query had caught up; what was wrong."""

    what: str
    back_after_s: float
    records: int
    checks: int
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
    """Reads the group's offsets and the checkpoint periodically; keeps what is wrong, and the offsets of the last check."""

    def __init__(self, servers: str, checkpoint: Path) -> None:
        super().__init__(daemon=True)
        self.committed: Offsets = {}
        self.checks = 0
        self.wrong: list[str] = []
        self._admin = AdminClient(servers, timeout_ms=ASK_MS_MAX)
        self._checkpoint = checkpoint
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(CHECK_EVERY_S):
            try:
                committed = self._admin.committed([GROUP])[GROUP]
            except (ClientError, PeerError, OSError):  # the broker is gone: that is the point
                continue
            if isinstance(committed, Failure):
                continue
            snapshot = GroupSnapshot({partition: each.offset for partition, each in committed.items()}, processed_offsets(self._checkpoint))
            self.wrong += wrong_commits(self.committed, snapshot)
            self.committed = snapshot.committed
            self.checks += 1
        self._admin.close()

    def close(self) -> None:
        """Stop reading."""
        self._is_over.set()
        self.join()


class World:
    """Run the query and write records, as a context manager. The broker runs already; `directory` is new. `source`: see streams.driver."""

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
        create_topic(servers, TOPIC, PARTITIONS)
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
        """The log of the query's process."""
        return self._directory / "driver.log"

    def kill_one(self, victim: str | None = None) -> Kill:
        """Kill the query's driver, one of its workers, or the broker (None: one of them); check everything once the query has caught up."""
        self._wait_until_processed(self._producer.ends())
        checks, failed = self._watcher.checks, self._failed_queries()
        victim = victim or self._random.choice(VICTIMS)
        after_s = self._random.uniform(*BEFORE_KILL_S)
        time.sleep(after_s)
        what = {"driver": self._restart_driver, "worker": self._kill_worker, "broker": self._restart_broker}[victim]()
        began, written = time.monotonic(), len(self._producer.acknowledged)
        # What is written from now on cannot have been processed before the kill.
        self._wait_until(lambda: len(self._producer.acknowledged) >= written + RECORDS_PER_SECOND // 2)
        self._wait_until_processed(self._producer.ends())
        took_s = time.monotonic() - began
        restarts = self._failed_queries() - failed if victim != "driver" else 0
        words = f"{what} after {after_s:.2f} s" + (f", query restarted {restarts}x" if restarts else "")
        return Kill(words, took_s, len(self._producer.acknowledged), self._watcher.checks - checks, self._check())

    def leave(self) -> list[str]:
        """Kill the query's driver at a random moment and leave it dead; return what is wrong with what it leaves behind."""
        time.sleep(self._random.uniform(*BEFORE_KILL_S))
        self._kill_driver()
        checks = self._watcher.checks
        self._wait_until(lambda: self._watcher.checks > checks + 1)
        return self._check()

    def finish(self) -> list[str]:
        """Let the query process everything that was written; return what is wrong then."""
        self._producer.close()
        self._wait_until_processed(self._producer.ends())
        return self._check() + invented(self._producer.acknowledged, self._table.rows())

    # --- the victims

    def _restart_driver(self) -> str:
        self._kill_driver()
        self._start_driver()
        return "driver killed"

    def _kill_worker(self) -> str:
        self._wait_until(lambda: bool(self._workers()))  # a query that has just restarted has none for a moment
        worker = self._random.choice(self._workers())
        words = command_line(worker)
        what = next(what for end, what in WORKERS.items() if words.endswith(end))
        worker.kill()
        return f"worker killed ({what})"

    def _workers(self) -> list[psutil.Process]:
        assert self._driver is not None
        return [process for process in process_tree(self._driver.pid) if command_line(process).endswith(tuple(WORKERS))]

    def _restart_broker(self) -> str:
        self._broker.kill()
        gone_s = self._random.uniform(*BROKER_GONE_S)
        time.sleep(gone_s)
        self._broker.start()
        return f"broker killed, gone for {gone_s:.2f} s,"

    def _start_driver(self) -> None:
        job = Job(self._broker.bootstrap_servers, TOPIC, GROUP, str(self._directory), self._source)
        self._driver = ServerProcess([sys.executable, "-m", "ottla.testing.streaming_kills.driver", *job], log_path=self.log)

    def _kill_driver(self) -> None:
        """Kill the program, its Java process and all workers, so that none finishes its work. Nothing happens when there is none."""
        if self._driver is not None:
            kill_tree(self._driver.pid)
            self._driver.kill()
            self._driver = None

    # --- the checks

    def _check(self) -> list[str]:
        wrong, self._watcher.wrong = self._watcher.wrong, []
        committed = self._watcher.committed
        return wrong + self._producer.failures + wrong_rows(dict(self._producer.acknowledged), self._table.rows(), committed)

    def _failed_queries(self) -> int:
        return self.log.read_text(errors="replace").count("the query failed: ")

    def _wait_until_processed(self, ends: Offsets) -> None:
        """Wait until the group has committed `ends`."""
        self._wait_until(lambda: all(self._watcher.committed.get(partition, 0) >= offset for partition, offset in ends.items()))

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Raises AssertionError with the end of the driver's log when that takes too long."""
        deadline = time.monotonic() + PROGRESS_S_MAX
        while not condition():
            assert time.monotonic() < deadline, f"no progress in {PROGRESS_S_MAX} s:\n{self.log.read_text(errors='replace')[-4000:]}"
            time.sleep(0.02)
