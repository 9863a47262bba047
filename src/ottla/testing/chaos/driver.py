"""Chaos from a seed: starts, stops, freezes and kills consumers, moves coordinators and leaders, restarts brokers, produces.

The seed decides what happens when; the timing still differs from run to run. `oracle` checks what must hold.
"""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ottla.broker import Cluster
from ottla.testing.chaos.oracle import JournalRead, Place, read_journal
from ottla.testing.chaos.worker import LIBRARIES, SESSION_MS
from ottla.testing.processes.process import ServerProcess

GROUP, TOPIC, PARTITIONS = "chaos", "ledger", 24
SETTINGS = {
    "default.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
"""What the cluster needs for it."""
CONSUMERS_MAX, CONSUMERS_MIN = 12, 4
MOVE_EVERY_S = (3.0, 7.0)
ACT_EVERY_S = (0.5, 2.0)
RECORDS_PER_SECOND = 400
FREEZE_S = (0.5, SESSION_MS / 1000 + 3)
DRAIN_S_MAX = 90


class Consumer(NamedTuple):
    """One worker: its process, its journal, and the library that it uses."""

    process: ServerProcess
    journal: Path
    library: str


class Chaos:
    """Twelve consumers of three libraries on one cluster; `run`, then `drain`, then read `produced` and `journals`."""

    def __init__(self, cluster: Cluster, seed: int, directory: Path) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._directory = directory
        self._assignor = self._random.choice(("range", "roundrobin"))
        self._running: list[Consumer] = []
        self._frozen: list[tuple[float, Consumer]] = []
        self._started: list[Consumer] = []
        self._stopped_broker: tuple[float, int] | None = None
        self.produced: dict[Place, str] = {}
        self.acts: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Run the chaos for so long."""
        end = time.monotonic() + seconds
        next_move = next_act = time.monotonic()
        is_over = threading.Event()
        failures: list[BaseException] = []
        producing = threading.Thread(target=self._produce, args=(is_over, failures))
        producing.start()
        try:
            while (now := time.monotonic()) < end:
                if now >= next_move:
                    self._move_coordinator()
                    next_move = now + self._random.uniform(*MOVE_EVERY_S)
                if now >= next_act:
                    self._act(now)
                    next_act = now + self._random.uniform(*ACT_EVERY_S)
                self._thaw(now)
                time.sleep(0.02)
        finally:
            is_over.set()
            producing.join()
        assert not failures, failures

    def drain(self) -> None:
        """Let all consumers run until the group has committed everything that was written; then stop them in order."""
        self._thaw(float("inf"))
        while len(self._running) < CONSUMERS_MIN:
            self._start()
        deadline = time.monotonic() + DRAIN_S_MAX
        while (behind := self._behind()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not behind, f"after {DRAIN_S_MAX} s these partitions are not committed to their end: {behind}"

    def close(self) -> None:
        """End every consumer, frozen ones too."""
        for consumer in self._running:
            consumer.process.send_signal("CONT")
        for consumer in self._running:
            consumer.process.send_signal("TERM")
        for consumer in self._running:
            consumer.process.stop(seconds_max=20)
        self._running.clear()

    def journals(self) -> list[JournalRead]:
        """What every consumer did, including those that were stopped or killed."""
        return [read_journal(consumer.journal) for consumer in self._started]

    # --- what happens

    def _act(self, now: float) -> None:
        if len(self._running) < CONSUMERS_MIN:
            self._start()
            return
        acts: dict[Callable[[float], None], int] = {
            self._join: 6 if len(self._running) < CONSUMERS_MAX else 0,
            self._leave: 2,
            self._die: 2,
            self._freeze: 2,
            self._move_leader: 2,
            self._bounce: 1 if self._stopped_broker is None else 0,
        }
        (act,) = self._random.choices(list(acts), list(acts.values()))
        self.acts[act.__name__.strip("_")] += 1
        act(now)

    def _join(self, _now: float) -> None:
        self._start()

    def _start(self) -> None:
        library = list(LIBRARIES)[len(self._started) % len(LIBRARIES)]
        journal = self._directory / f"journal-{len(self._started)}"
        servers = ",".join(self._cluster.address(broker) for broker in self._cluster.brokers)
        job = (library, servers, GROUP, TOPIC, self._assignor, str(journal))
        command = [sys.executable, "-m", "ottla.testing.chaos.worker", *job]
        consumer = Consumer(ServerProcess(command, log_path=self._directory / f"log-{len(self._started)}"), journal, library)
        self._running.append(consumer)
        self._started.append(consumer)

    def _take(self) -> Consumer:
        frozen = [consumer for _, consumer in self._frozen]
        return self._random.choice([each for each in self._running if each not in frozen] or self._running)

    def _leave(self, _now: float) -> None:
        consumer = self._take()
        consumer.process.send_signal("TERM")
        self._forget(consumer)

    def _die(self, _now: float) -> None:
        consumer = self._take()
        consumer.process.send_signal("KILL")
        self._forget(consumer)

    def _forget(self, consumer: Consumer) -> None:
        self._running.remove(consumer)
        self._frozen = [each for each in self._frozen if each[1] is not consumer]

    def _freeze(self, now: float) -> None:
        consumer = self._take()
        consumer.process.send_signal("STOP")
        self._frozen.append((now + self._random.uniform(*FREEZE_S), consumer))

    def _thaw(self, now: float) -> None:
        for until, consumer in self._frozen:
            if now >= until:
                consumer.process.send_signal("CONT")
        self._frozen = [each for each in self._frozen if now < each[0]]
        if self._stopped_broker is not None and now >= self._stopped_broker[0]:
            self._cluster.start_broker(self._stopped_broker[1])
            self._stopped_broker = None

    def _other(self, than: int | None) -> int:
        return self._random.choice([broker for broker in self._cluster.live_brokers if broker != than])

    def _move_coordinator(self) -> None:
        self.acts["move_coordinator"] += 1
        self._cluster.move_coordinator(GROUP, self._other(self._cluster.coordinator(GROUP).broker_id))

    def _move_leader(self, _now: float) -> None:
        partition = self._random.randrange(PARTITIONS)
        self._cluster.move_leader(TOPIC, partition, self._other(self._cluster.leader(TOPIC, partition)))

    def _bounce(self, now: float) -> None:
        broker = self._random.choice(self._cluster.live_brokers)
        self._cluster.stop_broker(broker)
        self._stopped_broker = now + self._random.uniform(0.5, 4), broker

    # --- the ledger

    def _produce(self, is_over: threading.Event, failures: list[BaseException]) -> None:
        from confluent_kafka import KafkaError, Message, Producer

        settings = {"bootstrap.servers": self._cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        producer = Producer(settings)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(RuntimeError(str(error)))
            else:
                self.produced[int(message.partition() or 0), int(message.offset() or 0)] = (message.value() or b"").decode()

        number = 0
        while not is_over.is_set():
            for _ in range(RECORDS_PER_SECOND // 20):
                producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=delivered)
                number += 1
            producer.poll(0)
            is_over.wait(0.05)
        if producer.flush(60):
            failures.append(TimeoutError("records that the brokers never acknowledged"))

    def _behind(self) -> dict[int, tuple[int, int]]:
        """Partitions whose committed offset is not their end, with both."""
        from confluent_kafka import Consumer as Watcher
        from confluent_kafka import KafkaException, TopicPartition

        ends: dict[int, int] = {}
        for partition, offset in self.produced:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        watcher = Watcher({"bootstrap.servers": self._cluster.bootstrap_servers, "group.id": GROUP, "log_level": 0})
        try:
            found = watcher.committed([TopicPartition(TOPIC, partition) for partition in ends], timeout=10)
        except KafkaException:  # the coordinator has just moved
            return {-1: (0, 0)}
        finally:
            watcher.close()
        return {each.partition: (each.offset, ends[each.partition]) for each in found if each.offset < ends[each.partition]}
