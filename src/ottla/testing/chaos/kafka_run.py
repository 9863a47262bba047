"""`python -m ottla.testing.chaos.kafka_run`: chaos on Apache Kafka, with members of `ottla.Consumer` alone; a summary at the end.

Members join, leave, freeze, are killed and lose their connections; the broker is stopped, killed and frozen. What must hold: every record
that was acknowledged is processed, each assignment begins at the committed offsets, and in the end every member has a part.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.testing.chaos.driver import ACT_EVERY_S, CONSUMERS_MAX, CONSUMERS_MIN, DRAIN_S_MAX, GROUP, PARTITIONS, TOPIC
from ottla.testing.chaos.ledger import Ledger
from ottla.testing.chaos.members import Members
from ottla.testing.chaos.oracle import lost
from ottla.testing.clients.topics import create_topic
from ottla.testing.processes.process import BrokerProcess
from ottla.testing.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "500", "group.min.session.timeout.ms": "1000"}
ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
BROKER_EVERY_S: Final = (20.0, 50.0)
BROKER_FREEZE_S: Final = (1.0, 8.0)


class KafkaChaos:
    """Members of one group on one broker; `run`, then `wrong`."""

    def __init__(self, broker: BrokerProcess, seed: int, directory: Path) -> None:
        self._broker = broker
        self._rng = random.Random(seed)
        self.assignor = self._rng.choice(ASSIGNORS)
        self.members = Members(
            rng=self._rng,
            directory=directory,
            libraries=["ottla"],
            servers=lambda: broker.bootstrap_servers,
            group=GROUP,
            topic=TOPIC,
            assignor=self.assignor,
        )
        self.ledger = Ledger(broker.bootstrap_servers, TOPIC, PARTITIONS)
        self.acts: Counter[str] = Counter()
        self._frozen_until_s: float | None = None

    def run(self, seconds: float) -> None:
        """Run the chaos for so long."""
        end = time.monotonic() + seconds
        next_act = time.monotonic()
        next_broker = next_act + self._rng.uniform(*BROKER_EVERY_S)
        with self.ledger.growing():
            while (now := time.monotonic()) < end:
                if now >= next_act:
                    self._act_on_members(now)
                    next_act = now + self._rng.uniform(*ACT_EVERY_S)
                if now >= next_broker and self._frozen_until_s is None:
                    self._act_on_broker(now)
                    next_broker = time.monotonic() + self._rng.uniform(*BROKER_EVERY_S)
                self._thaw(now)
                time.sleep(0.02)
            self._thaw(float("inf"))

    def wrong(self) -> list[str]:
        """Let the members go on until the group has committed everything; what does not hold."""
        while len(self.members.running) < CONSUMERS_MIN:
            self.members.start()
        deadline = time.monotonic() + DRAIN_S_MAX
        found = self._unsettled()
        while found and time.monotonic() < deadline:
            time.sleep(0.2)
            found = self._unsettled()
        self.members.close()
        journals = self.members.journals()
        found += [f"record {place} was not processed" for place in lost(self.ledger.produced, journals)]
        return found + [f"a record came for partition {text}" for journal in journals for text in journal.misplaced]

    def _unsettled(self) -> list[str]:
        behind = self.ledger.behind(GROUP)
        found = [f"partition {number} is committed to {committed} of {end}" for number, (committed, end) in behind.items()]
        return found + self._group_problem()

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

    def _act_on_members(self, now: float) -> None:
        members = self.members
        if len(members.running) < CONSUMERS_MIN:
            members.start()
            return
        self._choose(
            join=(members.start, 5 if len(members.running) < CONSUMERS_MAX else 0),
            leave=(members.leave, 2),
            die=(members.die, 2),
            freeze=(lambda: members.freeze(now), 2),
            cut=(members.cut, 4),
        )

    def _act_on_broker(self, now: float) -> None:
        self._choose(
            stop_broker=(lambda: self._restart(self._broker.stop), 1),
            kill_broker=(lambda: self._restart(self._broker.kill), 1),
            freeze_broker=(lambda: self._freeze(now), 1),
        )

    def _choose(self, **acts: tuple[Callable[[], None], int]) -> None:
        (name,) = self._rng.choices(list(acts), [weight for _, weight in acts.values()])
        self.acts[name] += 1
        acts[name][0]()

    def _restart(self, end: Callable[[], object]) -> None:
        end()
        self._broker.start()

    def _freeze(self, now: float) -> None:
        os.kill(self._broker.pid, signal.SIGSTOP)
        self._frozen_until_s = now + self._rng.uniform(*BROKER_FREEZE_S)

    def _thaw(self, now: float) -> None:
        self.members.thaw(now)
        if self._frozen_until_s is not None and now >= self._frozen_until_s:
            os.kill(self._broker.pid, signal.SIGCONT)
            self._frozen_until_s = None


def main(arguments: Sequence[str]) -> int:
    """Run each seed; the exit status is 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.chaos.kafka_run")
    parser.add_argument("--seconds", type=float, default=600, help="how long a seed runs (default: 600)")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[1], help="1,2,3 (default: 1)")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="where Apache Kafka's jars are (default: .cache)")
    given = parser.parse_args(arguments)
    wrong = 0
    for seed in given.seeds:
        with tempfile.TemporaryDirectory(prefix="ottla-chaos-") as directory:
            cache = given.cache / f"apache-kafka-{VERSION}"
            broker = ApacheKafka(Path(directory) / "kafka", cache_dir=cache, config=SETTINGS, jvm_options=QUICK_JVM_OPTIONS)
            wrong += bool(_run(broker, seed, given.seconds, Path(directory)))
    return 1 if wrong else 0


def _run(broker: BrokerProcess, seed: int, seconds: float, directory: Path) -> list[str]:
    with broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        chaos = KafkaChaos(broker, seed, directory)
        try:
            chaos.run(seconds)
            wrong = chaos.wrong()
        finally:
            chaos.members.close()
    acts = ", ".join(f"{name} {count}" for name, count in sorted(chaos.acts.items()))
    _report(f"seed {seed}, {chaos.assignor}: {len(chaos.ledger.produced)} records, {len(chaos.members.started)} members, {acts}")
    for text in wrong:
        _report(f"WRONG: {text}")
    if wrong:
        for number, journal in enumerate(chaos.members.journals()):
            _report(f"member {number}: {len(journal.processed)} records, trouble at the end: {'; '.join(journal.trouble[-3:])}")
    return wrong


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
