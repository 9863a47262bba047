"""Consume-transform-produce in transactions, checked as Jepsen does: zombies, kills, moves, timeouts; every input exactly once.

Copiers of three libraries read one topic and write another. Those of the group are fenced by its generations (KIP-447); the others have a
transactional id for each partition, and rivals with the same id. A seed decides when copiers are killed, frozen beyond their session and
transaction, or get a rival, and what happens to the brokers: on Ottla's cluster in this process coordinators and leaders move and brokers
stop; one broker as a process, of either kind, is stopped, killed and frozen.

The oracle reads the output while it grows and at its end. `--broken NAME` runs it with a coordinator that is broken on purpose.
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from ottla.broker import Cluster
from ottla.cli.processes import BrokerProcess, OttlaProcess
from ottla.groups.classic.group import ClassicGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.reference.apache_kafka import ApacheKafka
from trials.exactly_once.copier import LIBRARIES, SESSION_MS, TRANSACTION_MS, WITH_GENERATION, Job
from trials.exactly_once.copies import (
    Output,
    read_journals,
    read_output,
    wrong_copies,
    wrong_early,
    wrong_offsets,
    wrong_transactions,
)
from trials.harness.actions import Actions, Recurring
from trials.harness.ledger import Ledger
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import Program, make_broker
from trials.simulation import broken_coordinators

NAME = "exactly-once"
INPUT, PARTITIONS = "input", 4
BY_GROUP, BY_ID = "by-group", "by-id"
"""The two groups; their outputs have the same names."""
CLUSTER: Final = "cluster"
BROKERS: Final = (CLUSTER, OttlaProcess.kind, ApacheKafka.kind)
CONFIG: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": str(PARTITIONS),
}


def _no_generations() -> Any:
    """Members of earlier generations commit offsets within transactions (no KIP-447)."""
    return patch.object(ClassicGroup, "check_transactional_commit", lambda *_: ErrorCode.NONE)


BROKEN: Final = {**broken_coordinators.BROKEN, "no-generations": _no_generations}
RECORDS_PER_SECOND: Final = 100
COPIERS_OF_THE_GROUP: Final = 3
ACT_EVERY_S: Final = (0.5, 2.5)
MOVE_EVERY_S: Final = (1.0, 4.0)
BROKER_EVERY_S: Final = (12.0, 30.0)
BROKER_FREEZE_S: Final = (1.0, 7.0)
FREEZE_S: Final = (0.3, max(SESSION_MS, TRANSACTION_MS) / 1000 + 3)
DRAIN_S_MAX: Final = 120
STOP_S_MAX: Final = 20
PAUSE_S: Final = 0.05


class Copier(NamedTuple):
    """One process. `slot`: the group, and the partition of one that has an id for it."""

    program: Program
    journal: Path
    slot: tuple[str, str]


class Copiers:
    """Copiers of both kinds: at least COPIERS_OF_THE_GROUP of the one, and one for each partition of the other."""

    def __init__(self, rng: random.Random, directory: Path, servers: Callable[[], str], libraries: Sequence[str]) -> None:
        self.started: list[Copier] = []
        self.running: list[Copier] = []
        self._rng = rng
        self._directory = directory
        self._servers = servers
        self._libraries = libraries
        self._frozen: dict[Copier, float] = {}

    def keep_up(self) -> None:
        """Start those that are missing: killed, fenced, or ended by an error."""
        for copier in [copier for copier in self.running if not copier.program.is_running]:
            self._forget(copier)
        slots = [(BY_GROUP, "")] * COPIERS_OF_THE_GROUP + [(BY_ID, str(number)) for number in range(PARTITIONS)]
        for copier in self.running:
            if copier not in self._frozen and copier.slot in slots:
                slots.remove(copier.slot)
        for slot in slots:
            self.start(slot)

    def start(self, slot: tuple[str, str]) -> None:
        """Start one. A second one for a partition is the rival of the first."""
        number, (group, partition) = len(self.started), slot
        libraries = self._libraries if partition else [each for each in self._libraries if each in WITH_GENERATION]
        library = self._rng.choice(libraries)
        directory = self._directory / f"{number}-{library}-{group}{partition}"
        job = Job(
            library=library,
            servers=self._servers(),
            group=group,
            input=INPUT,
            output=group,
            partitions=str(PARTITIONS),
            transactional_id=f"{group}-{partition or number}",
            partition=partition,
            seed=str(self._rng.randrange(1 << 30)),
            journal=str(directory / "journal"),
        )
        copier = Copier(Program(directory, [sys.executable, "-m", "trials.exactly_once.copier", *job]), directory / "journal", slot)
        copier.program.start()
        self.running.append(copier)
        self.started.append(copier)

    def rival(self) -> None:
        """Start a second producer of an id."""
        self.start((BY_ID, str(self._rng.randrange(PARTITIONS))))

    def kill(self) -> None:
        """Kill one, with whatever it has open."""
        if (copier := self._take()) is not None:
            copier.program.kill()
            self._forget(copier)

    def leave(self) -> None:
        """Let one end in order."""
        if (copier := self._take()) is not None:
            copier.program.send_signal("TERM")

    def freeze(self) -> None:
        """Stop one with its transaction open: it comes back as a zombie, for another takes its place."""
        if (copier := self._take()) is not None:
            copier.program.freeze()
            self._frozen[copier] = time.monotonic() + self._rng.uniform(*FREEZE_S)

    def thaw(self, now_s: float) -> None:
        """Let those go on whose time is over."""
        for copier in [copier for copier, until_s in self._frozen.items() if now_s >= until_s]:
            copier.program.thaw()
            del self._frozen[copier]

    def close(self) -> None:
        """End all."""
        self.thaw(float("inf"))
        for copier in self.running:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                copier.program.send_signal("TERM")
        deadline = time.monotonic() + STOP_S_MAX
        for copier in self.running:
            copier.program.stop(seconds_max=max(1.0, deadline - time.monotonic()))
        self.running.clear()

    def _take(self) -> Copier | None:
        awake = [copier for copier in self.running if copier not in self._frozen and copier.program.is_running]
        return self._rng.choice(awake) if awake else None

    def _forget(self, copier: Copier) -> None:
        self.running.remove(copier)
        self._frozen.pop(copier, None)


class Reader(threading.Thread):
    """Reads the outputs as they grow, as a read_committed consumer does, and the groups' stable offsets."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, list[Output]] = {BY_GROUP: [], BY_ID: []}
        self.samples: dict[str, list[dict[int, int]]] = {BY_GROUP: [], BY_ID: []}
        self._servers = servers
        self._is_over = threading.Event()

    def run(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(_reading(self._servers, "reader"))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic in self.seen for number in range(PARTITIONS)])
        while not self._is_over.is_set():
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    output = read_output(int(message.partition() or 0), int(message.offset() or 0), message.value() or b"")
                    self.seen[str(message.topic())].append(output)
            for group in self.samples:
                self.sample(group)
        consumer.close()

    def sample(self, group: str) -> bool:
        """Note the group's committed offsets, as those see them who wait for what is stable; whether there was an answer."""
        sample = committed(self._servers, group)
        if sample is not None:
            self.samples[group].append(sample)
        return sample is not None

    def close(self) -> None:
        """Stop."""
        self._is_over.set()
        self.join()


def _reading(servers: str, group: str, isolation_level: str = "read_committed") -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "isolation.level": isolation_level,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def committed(servers: str, group: str) -> dict[int, int] | None:
    """The group's stable offsets by partition; None where they are not to be had now."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    asking = Consumer(_reading(servers, group))
    try:
        found = asking.committed([TopicPartition(INPUT, number) for number in range(PARTITIONS)], timeout=5)
    except KafkaException:
        return None
    finally:
        asking.close()
    return {each.partition: max(each.offset, 0) for each in found if each.error is None}


def read_all(servers: str, topic: str, isolation_level: str) -> list[Output]:
    """The whole output. At read_committed, to its last stable offset."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(_reading(servers, "reader", isolation_level))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    outputs, left = [], set(range(PARTITIONS))
    deadline = time.monotonic() + DRAIN_S_MAX
    while left and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                outputs.append(read_output(int(message.partition() or 0), int(message.offset() or 0), message.value() or b""))
            else:
                left.discard(int(message.partition() or 0))
    consumer.close()
    assert not left, f"partitions {left} of {topic} have no end"
    return outputs


class Trouble:
    """What a seed does to copiers and brokers. `brokers`: what happens to these, and after what."""

    def __init__(self, rng: random.Random, copiers: Copiers, servers: str) -> None:
        self.actions = Actions(rng)
        self.copiers = copiers
        self.ledger = Ledger(servers, INPUT, PARTITIONS, per_second=RECORDS_PER_SECOND)
        self.reader = Reader(servers)
        self._random = rng
        self._servers = servers

    def run(self, seconds: float, recurring: Sequence[Recurring], heal: Callable[[float], None]) -> list[str]:
        """Make trouble for so long, then let all settle; what does not hold. `heal` gets the time, and ends what has lasted long enough."""
        act = Recurring(self._random, ACT_EVERY_S, self._act)
        self.reader.start()
        end = time.monotonic() + seconds
        with self.ledger.growing():
            while (now := time.monotonic()) < end:
                self.copiers.keep_up()
                for each in (act, *recurring):
                    each.act_if_due()
                self.copiers.thaw(now)
                heal(now)
                time.sleep(PAUSE_S)
            heal(float("inf"))
            self.copiers.thaw(float("inf"))
        ends = {place.partition: offset for place, offset in self.ledger.ends().items()}
        self._settle(ends)
        self.copiers.close()
        self.reader.close()
        return [f"{group}: {wrong}" for group in (BY_GROUP, BY_ID) for wrong in self._wrong(group, ends)]

    def _act(self) -> None:
        self.actions.do_one(
            kill=(self.copiers.kill, 3), freeze=(self.copiers.freeze, 3), rival=(self.copiers.rival, 2), leave=(self.copiers.leave, 1)
        )

    def _settle(self, ends: dict[int, int]) -> None:
        deadline = time.monotonic() + DRAIN_S_MAX
        while time.monotonic() < deadline and any(committed(self._servers, group) != ends for group in (BY_GROUP, BY_ID)):
            self.copiers.keep_up()
            time.sleep(0.5)

    def _wrong(self, group: str, ends: dict[int, int]) -> list[str]:
        deadline = time.monotonic() + DRAIN_S_MAX
        while not self.reader.sample(group) and time.monotonic() < deadline:
            time.sleep(0.5)
        everything = read_all(self._servers, group, "read_uncommitted")
        outputs = read_all(self._servers, group, "read_committed")
        outcomes = read_journals(copier.journal for copier in self.copiers.started if copier.slot[0] == group)
        return [
            *wrong_copies(self.ledger.acknowledged, outputs),
            *wrong_transactions(outputs, everything, outcomes),
            *wrong_early(self.reader.seen[group], outputs),
            *wrong_offsets(self.reader.samples[group], ends),
        ]

    def __str__(self) -> str:
        outcomes = read_journals(copier.journal for copier in self.copiers.started)
        figures = f"{len(self.ledger.acknowledged)} records, {len(self.copiers.started)} copiers"
        return f"{figures}, {len(outcomes.committed)} commits, {len(outcomes.aborted)} aborts, {self.actions}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long, on which broker, with what broken."""
    parser.add_argument("--seconds", type=float, default=600, help="how long a seed runs (default: 600)")
    parser.add_argument("--broker", choices=BROKERS, default=CLUSTER, help=f"(default: {CLUSTER})")
    parser.add_argument("--broken", choices=tuple(BROKEN), help="break the cluster's coordinators: the oracle must find it")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help=f"(default: {','.join(LIBRARIES)})")
    add_seed_option(parser, "1")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each seed."""
    assert options.broken is None or options.broker == CLUSTER, "only the cluster in this process can be broken"
    libraries = options.libraries.split(",")

    def run_one(seed: int, directory: Path) -> Outcome:
        if options.broker != CLUSTER:
            return on_process(seed, directory, options.seconds, options.broker, libraries)
        with BROKEN[options.broken]() if options.broken else contextlib.nullcontext():
            return on_cluster(seed, directory, options.seconds, libraries)

    results.run_seeds(options.seed, run_one)


def create_topics(servers: str, *, replicas: int) -> None:
    """The topics of the copies, and those of the coordinators, which their first use creates."""
    for topic in (INPUT, BY_GROUP, BY_ID):
        create_topic(servers, topic, PARTITIONS, replicas=replicas)
    with RawClient(servers) as client:
        for key_type in (0, 1):
            client.call(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=["x"])


def on_cluster(seed: int, directory: Path, seconds: float, libraries: Sequence[str]) -> Outcome:
    """One seed on three of Ottla's brokers in this process."""
    rng = random.Random(seed)
    with Cluster(brokers=3, config={"default.replication.factor": "3", **CONFIG}, data_dir=directory / "data") as cluster:
        create_topics(cluster.address(1), replicas=3)
        servers = ",".join(cluster.address(broker) for broker in cluster.brokers)
        trouble = Trouble(rng, Copiers(rng, directory, lambda: servers, libraries), servers)
        stopped: list[tuple[float, int]] = []

        def move(topic: str) -> None:
            number = rng.randrange(PARTITIONS)
            trouble.actions.counts[f"move {topic}"] += 1
            others = [each for each in cluster.live_brokers if each != cluster.leader(topic, number)]
            cluster.move_leader(topic, number, rng.choice(others))

        def stop() -> None:
            if not stopped:
                trouble.actions.counts["stop broker"] += 1
                broker = rng.choice(cluster.live_brokers)
                cluster.stop_broker(broker)
                stopped.append((time.monotonic() + rng.uniform(0.5, 4), broker))

        def heal(now_s: float) -> None:
            if stopped and now_s >= stopped[0][0]:
                cluster.start_broker(stopped.pop()[1])

        recurring = [
            Recurring(rng, MOVE_EVERY_S, lambda topic=topic: move(topic), is_due_at_once=False)  # type: ignore[misc]
            for topic in ("__transaction_state", "__consumer_offsets", INPUT, BY_GROUP, BY_ID)
        ]
        with _closing(trouble):
            wrong = trouble.run(seconds, [*recurring, Recurring(rng, BROKER_EVERY_S, stop, is_due_at_once=False)], heal)
        return Outcome(wrong, str(trouble))


def on_process(seed: int, directory: Path, seconds: float, kind: str, libraries: Sequence[str]) -> Outcome:
    """One seed on a broker of its own process."""
    rng = random.Random(seed)
    with make_broker(kind, directory, CONFIG) as broker:
        create_topics(broker.bootstrap_servers, replicas=1)
        trouble = Trouble(rng, Copiers(rng, directory, lambda: broker.bootstrap_servers, libraries), broker.bootstrap_servers)
        with _closing(trouble):
            wrong = trouble.run(seconds, *_broker_trouble(rng, broker, trouble))
        return Outcome(wrong, str(trouble))


def _broker_trouble(rng: random.Random, broker: BrokerProcess, trouble: Trouble) -> tuple[list[Recurring], Callable[[float], None]]:
    frozen: list[float] = []

    def restart(end: Callable[[], object]) -> None:
        end()
        broker.start()

    def freeze() -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        frozen.append(time.monotonic() + rng.uniform(*BROKER_FREEZE_S))

    def act() -> None:
        if not frozen:
            trouble.actions.do_one(
                stop_broker=(lambda: restart(broker.stop), 1),
                kill_broker=(lambda: restart(broker.kill), 2),
                freeze_broker=(freeze, 1),
            )

    def heal(now_s: float) -> None:
        if frozen and now_s >= frozen[0]:
            os.kill(broker.pid, signal.SIGCONT)
            frozen.clear()

    return [Recurring(rng, BROKER_EVERY_S, act, is_due_at_once=False)], heal


@contextlib.contextmanager
def _closing(trouble: Trouble) -> Iterator[None]:
    try:
        yield
    finally:
        trouble.copiers.close()
