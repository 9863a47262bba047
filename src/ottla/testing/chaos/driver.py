"""Chaos from a seed: starts, stops, freezes and kills consumers, moves coordinators and leaders, restarts brokers, produces.

The seed decides what happens when; the timing still differs from run to run. `oracle` checks what must hold.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ottla.broker import Cluster
from ottla.testing.chaos.ledger import Ledger
from ottla.testing.chaos.members import Members
from ottla.testing.chaos.worker import LIBRARIES

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
DRAIN_S_MAX = 90


class Chaos:
    """Twelve consumers of four libraries on one cluster; `run`, then `drain`, then read `ledger` and `members`."""

    def __init__(self, cluster: Cluster, seed: int, directory: Path) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self.members = Members(
            rng=self._random,
            directory=directory,
            libraries=list(LIBRARIES),
            servers=lambda: ",".join(cluster.address(broker) for broker in cluster.brokers),
            group=GROUP,
            topic=TOPIC,
            assignor=self._random.choice(("range", "roundrobin")),
        )
        self.ledger = Ledger(cluster.bootstrap_servers, TOPIC, PARTITIONS)
        self._stopped_broker: tuple[float, int] | None = None
        self.acts: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        """Run the chaos for so long."""
        end = time.monotonic() + seconds
        next_move = next_act = time.monotonic()
        with self.ledger.growing():
            while (now := time.monotonic()) < end:
                if now >= next_move:
                    self._move_coordinator()
                    next_move = now + self._random.uniform(*MOVE_EVERY_S)
                if now >= next_act:
                    self._act(now)
                    next_act = now + self._random.uniform(*ACT_EVERY_S)
                self._thaw(now)
                time.sleep(0.02)

    def drain(self) -> None:
        """Let all consumers run until the group has committed everything that was written; then stop them in order."""
        self._thaw(float("inf"))
        while len(self.members.running) < CONSUMERS_MIN:
            self.members.start()
        deadline = time.monotonic() + DRAIN_S_MAX
        while (behind := self.ledger.behind(GROUP)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not behind, f"after {DRAIN_S_MAX} s these partitions are not committed to their end: {behind}"

    # --- what happens

    def _act(self, now: float) -> None:
        if len(self.members.running) < CONSUMERS_MIN:
            self.members.start()
            return
        acts: dict[str, tuple[Callable[[], None], int]] = {
            "join": (self.members.start, 6 if len(self.members.running) < CONSUMERS_MAX else 0),
            "leave": (self.members.leave, 2),
            "die": (self.members.die, 2),
            "freeze": (lambda: self.members.freeze(now), 2),
            "move_leader": (self._move_leader, 2),
            "bounce": (lambda: self._bounce(now), 1 if self._stopped_broker is None else 0),
        }
        (name,) = self._random.choices(list(acts), [weight for _, weight in acts.values()])
        self.acts[name] += 1
        acts[name][0]()

    def _thaw(self, now: float) -> None:
        self.members.thaw(now)
        if self._stopped_broker is not None and now >= self._stopped_broker[0]:
            self._cluster.start_broker(self._stopped_broker[1])
            self._stopped_broker = None

    def _other(self, than: int | None) -> int:
        return self._random.choice([broker for broker in self._cluster.live_brokers if broker != than])

    def _move_coordinator(self) -> None:
        self.acts["move_coordinator"] += 1
        self._cluster.move_coordinator(GROUP, self._other(self._cluster.coordinator(GROUP).broker_id))

    def _move_leader(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        self._cluster.move_leader(TOPIC, partition, self._other(self._cluster.leader(TOPIC, partition)))

    def _bounce(self, now: float) -> None:
        broker = self._random.choice(self._cluster.live_brokers)
        self._cluster.stop_broker(broker)
        self._stopped_broker = now + self._random.uniform(0.5, 4), broker
