"""Chaos from a seed: consumers start, stop, freeze and are killed, brokers too, while records are produced.

On Ottla: consumers of four libraries on a cluster of three brokers in this process, whose coordinators and leaders move; with `--protocols
mixed` some are of the consumer protocol (KIP-848), so that the group changes its type while it works. On Apache Kafka:
members of `ottla.Consumer` alone, whose connections break, on one broker that is stopped, killed and frozen.

What must hold: every record that was acknowledged is processed, each assignment begins at the committed offsets, and everything is
committed in the end. On Ottla, no partition has two owners and every rebalance has a cause; on Apache Kafka, every member has a part in
the end.

The seed decides what happens when; the timing still differs from run to run.
"""

import argparse
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ottla.broker import Cluster
from ottla.cli.processes import BrokerProcess, OttlaProcess
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.groups.events import GroupEvent
from ottla.testing.raw_client import create_topic
from trials.chaos.members import Members
from trials.chaos.worker import CLASSIC, KIP_848
from trials.harness.actions import Action, Actions, Recurring
from trials.harness.ledger import Ledger
from trials.harness.oracle import lost, owned_twice, without_cause
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import add_broker_option, make_broker

NAME = "chaos"
GROUP, TOPIC, PARTITIONS = "chaos", "ledger", 24
RECORDS_PER_SECOND: Final = 400
SHORT_SESSIONS: Final = {"group.initial.rebalance.delay.ms": "500", "group.min.session.timeout.ms": "1000"}
SETTINGS: Final = {
    "default.replication.factor": "3",
    **SHORT_SESSIONS,
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""What Ottla's cluster needs for it."""
ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
CONSUMERS_MAX, CONSUMERS_MIN = 12, 4
MOVE_EVERY_S = (3.0, 7.0)
ACT_EVERY_S = (0.5, 2.0)
LOOK_EVERY_S = (0.2, 1.0)
MIXED: Final = ("confluent-kip-848", "aiokafka", "ottla-kip-848", "kafka-python", *KIP_848, "confluent", "ottla")
"""Members of both protocols, in the order in which they start."""
BROKER_EVERY_S: Final = (20.0, 50.0)
BROKER_FREEZE_S: Final = (1.0, 8.0)
DRAIN_S_MAX = 90
PAUSE_S: Final = 0.02


class Chaos(ABC):
    """Up to twelve consumers of one group: `run`, then `drain` or `wrong`; `ledger` and `members` hold what was written and processed."""

    def __init__(self, rng: random.Random, members: Members, bootstrap_servers: str) -> None:
        self.members = members
        self.ledger = Ledger(bootstrap_servers, TOPIC, PARTITIONS, per_second=RECORDS_PER_SECOND)
        self.actions = Actions(rng)
        self._random = rng

    def run(self, seconds: float) -> None:
        """Run the chaos for so long."""
        end = time.monotonic() + seconds
        recurring = self._recurring()
        with self.ledger.growing():
            while (now := time.monotonic()) < end:
                for action in recurring:
                    action.act_if_due()
                self._thaw(now)
                time.sleep(PAUSE_S)
            self._thaw(float("inf"))

    def unsettled(self) -> list[str]:
        """Let all consumers run until the group has committed everything that was written; what is still missing after DRAIN_S_MAX."""
        while len(self.members.running) < CONSUMERS_MIN:
            self.members.start()
        deadline = time.monotonic() + DRAIN_S_MAX
        while (missing := self._missing()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return missing

    @abstractmethod
    def _recurring(self) -> Sequence[Recurring]:
        """What happens again and again."""

    @abstractmethod
    def _thaw(self, now_s: float) -> None:
        """Let those go on whose time is over."""

    def _missing(self) -> list[str]:
        behind = self.ledger.behind(GROUP)
        return [f"partition {number} is committed to {committed} of {end}" for number, (committed, end) in behind.items()]

    def _act_on_members(self, **more: tuple[Action, int]) -> None:
        """Start a consumer, or do something to one; or one of the other actions."""
        members = self.members
        if len(members.running) < CONSUMERS_MIN:
            members.start()
            return
        self.actions.do_one(
            join=(members.start, 6 if len(members.running) < CONSUMERS_MAX else 0),
            leave=(members.leave, 2),
            die=(members.die, 2),
            freeze=(lambda: members.freeze(time.monotonic()), 2),
            **more,
        )


class ClusterChaos(Chaos):
    """Chaos on a cluster of Ottla's. `two_owners`: partitions that two members had when the group was described."""

    def __init__(self, cluster: Cluster, seed: int, directory: Path, *, libraries: Sequence[str] = tuple(CLASSIC)) -> None:
        rng = random.Random(seed)
        members = Members(
            rng=rng,
            directory=directory,
            libraries=libraries,
            servers=lambda: ",".join(cluster.address(broker) for broker in cluster.brokers),
            group=GROUP,
            topic=TOPIC,
            assignor=rng.choice(("range", "roundrobin")),
        )
        super().__init__(rng, members, cluster.bootstrap_servers)
        self._cluster = cluster
        self.two_owners: list[str] = []
        self._stopped_broker: tuple[float, int] | None = None

    def drain(self) -> None:
        """Let all consumers run until the group has committed everything. Raises AssertionError when it does not."""
        missing = self.unsettled()
        assert not missing, f"after {DRAIN_S_MAX} s: {missing}"

    def _recurring(self) -> Sequence[Recurring]:
        return (
            Recurring(self._random, MOVE_EVERY_S, self._move_coordinator),
            Recurring(self._random, ACT_EVERY_S, self._act),
            # With a random of its own: a seed does the same things whether or not somebody looks.
            Recurring(random.Random(1), LOOK_EVERY_S, self._look_at_owners),
        )

    def _look_at_owners(self) -> None:
        try:
            with AdminClient(ClientSettings(bootstrap_servers=self._cluster.bootstrap_servers)) as admin:
                group = admin.describe_groups([GROUP])[GROUP]
        except ClientError:
            return  # its coordinator is on its way
        owners: dict[tuple[str, int], str] = {}
        for member in group.members if isinstance(group, DescribedGroup) else ():
            for topic, numbers in member.partitions.items():
                for number in numbers:
                    other = owners.setdefault((topic, number), member.member_id)
                    if other != member.member_id:
                        self.two_owners.append(f"{topic}-{number}: {other}, {member.member_id}")

    def _act(self) -> None:
        self._act_on_members(move_leader=(self._move_leader, 2), bounce=(self._bounce, 1 if self._stopped_broker is None else 0))

    def _thaw(self, now_s: float) -> None:
        self.members.thaw(now_s)
        if self._stopped_broker is not None and now_s >= self._stopped_broker[0]:
            self._cluster.start_broker(self._stopped_broker[1])
            self._stopped_broker = None

    def _other(self, than: int | None) -> int:
        return self._random.choice([broker for broker in self._cluster.live_brokers if broker != than])

    def _move_coordinator(self) -> None:
        self.actions.counts["move_coordinator"] += 1
        self._cluster.move_coordinator(GROUP, self._other(self._cluster.coordinator(GROUP).broker_id))

    def _move_leader(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        self._cluster.move_leader(TOPIC, partition, self._other(self._cluster.leader(TOPIC, partition)))

    def _bounce(self) -> None:
        broker = self._random.choice(self._cluster.live_brokers)
        self._cluster.stop_broker(broker)
        self._stopped_broker = time.monotonic() + self._random.uniform(0.5, 4), broker


class KafkaChaos(Chaos):
    """Chaos on one broker process, with members of `ottla.Consumer` alone."""

    def __init__(self, broker: BrokerProcess, seed: int, directory: Path) -> None:
        rng = random.Random(seed)
        self.assignor = rng.choice(ASSIGNORS)
        members = Members(
            rng=rng,
            directory=directory,
            libraries=["ottla"],
            servers=lambda: broker.bootstrap_servers,
            group=GROUP,
            topic=TOPIC,
            assignor=self.assignor,
        )
        super().__init__(rng, members, broker.bootstrap_servers)
        self._broker = broker
        self._frozen_until_s: float | None = None

    def wrong(self) -> list[str]:
        """Let the members go on until the group has committed everything; what does not hold."""
        wrong = self.unsettled()
        self.members.close()
        wrong += [f"record {place} was not processed" for place in lost(self.ledger.acknowledged, self.members.processed())]
        return wrong + [f"a record came for partition {text}" for journal in self.members.journals() for text in journal.misplaced]

    def _recurring(self) -> Sequence[Recurring]:
        return (
            Recurring(self._random, ACT_EVERY_S, lambda: self._act_on_members(cut=(self.members.cut, 4))),
            Recurring(self._random, BROKER_EVERY_S, self._act_on_broker, is_due_at_once=False),
        )

    def _act_on_broker(self) -> None:
        if self._frozen_until_s is None:
            self.actions.do_one(
                stop_broker=(lambda: self._restart(self._broker.stop), 1),
                kill_broker=(lambda: self._restart(self._broker.kill), 1),
                freeze_broker=(self._freeze, 1),
            )

    def _restart(self, end: Callable[[], object]) -> None:
        end()
        self._broker.start()

    def _freeze(self) -> None:
        os.kill(self._broker.pid, signal.SIGSTOP)
        self._frozen_until_s = time.monotonic() + self._random.uniform(*BROKER_FREEZE_S)

    def _thaw(self, now_s: float) -> None:
        self.members.thaw(now_s)
        if self._frozen_until_s is not None and now_s >= self._frozen_until_s:
            os.kill(self._broker.pid, signal.SIGCONT)
            self._frozen_until_s = None

    def _missing(self) -> list[str]:
        return super()._missing() + self._group_problem()

    def _group_problem(self) -> list[str]:
        try:
            with AdminClient(ClientSettings(bootstrap_servers=self._broker.bootstrap_servers)) as admin:
                group = admin.describe_groups([GROUP])[GROUP]
        except ClientError as error:
            return [str(error)]
        if not isinstance(group, DescribedGroup):
            return [f"the group cannot be described: {group}"]
        running = len(self.members.running)
        if group.state != "Stable" or len(group.members) != running:
            return [f"the group is {group.state} with {len(group.members)} members, and {running} are running"]
        return []


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long, on which broker."""
    parser.add_argument("--seconds", type=float, default=600, help="how long a seed runs (default: 600)")
    parser.add_argument(
        "--protocols",
        choices=("classic", "mixed"),
        default="classic",
        help="mixed, on Ottla alone: some members are of the consumer protocol (default: classic)",
    )
    add_seed_option(parser, "1")
    add_broker_option(parser)


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each seed."""
    libraries = MIXED if options.protocols == "mixed" else tuple(CLASSIC)
    if options.broker == OttlaProcess.kind:
        results.run_seeds(options.seed, lambda seed, directory: run_on_cluster(seed, directory, options.seconds, libraries))
    else:
        results.run_seeds(options.seed, lambda seed, directory: run_on_kafka(seed, directory, options.seconds))


def run_on_cluster(seed: int, directory: Path, seconds: float, libraries: Sequence[str]) -> Outcome:
    """One seed on three of Ottla's brokers."""
    events: list[GroupEvent] = []
    with Cluster(brokers=3, config=SETTINGS, on_group_event=events.append) as cluster:
        create_topic(cluster.address(1), TOPIC, PARTITIONS, replicas=3)
        chaos = ClusterChaos(cluster, seed, directory, libraries=libraries)
        try:
            chaos.run(seconds)
            wrong = chaos.unsettled()
        finally:
            chaos.members.close()
    wrong += [f"record {place} was not processed" for place in lost(chaos.ledger.acknowledged, chaos.members.processed())]
    wrong += [f"a record came for partition {text}" for journal in chaos.members.journals() for text in journal.misplaced]
    wrong += [f"two owners of {text}" for text in [*owned_twice(events), *chaos.two_owners]]
    wrong += [f"no cause of {text}" for text in without_cause(events)]
    changes = [event.kind for event in events].count("converted")
    return Outcome(wrong, f"{_figures(chaos)}, {changes} changes of the group's type")


def run_on_kafka(seed: int, directory: Path, seconds: float) -> Outcome:
    """One seed on Apache Kafka."""
    with make_broker("apache-kafka", directory, SHORT_SESSIONS) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        chaos = KafkaChaos(broker, seed, directory)
        try:
            chaos.run(seconds)
            wrong = chaos.wrong()
        finally:
            chaos.members.close()
    for number, journal in enumerate(chaos.members.journals() if wrong else []):
        wrong.append(f"member {number} has {len(journal.processed)} records, its trouble at the end: {'; '.join(journal.trouble[-3:])}")
    return Outcome(wrong, f"{chaos.assignor}, {_figures(chaos)}")


def _figures(chaos: Chaos) -> str:
    return f"{len(chaos.ledger.acknowledged)} records, {len(chaos.members.started)} members, {chaos.actions}"
