"""How long an honest client waits at worst, and how much memory the broker takes, while small hostile requests come in.

A canary in a process of its own sends small Produce, Fetch and Metadata requests all the time. The targets, Ottla's alone: it waits for
less than 0.25 s, and memory grows by no more than 150 MB beyond what the attack sent.
"""

import sys
from typing import Any

from peers import APACHE_KAFKA, OTTLA, arguments, make_topic, peers_in_turn
from report import Metric, Report, at_most

from trials.attacks.canary import Canary
from trials.attacks.catalog import ATTACKS, Damage, run_attack
from trials.attacks.target import Target

WAIT_MS_MAX = 250
GROWN_MB_MAX = 150
SMALL = 0.01


def metrics(name: str) -> tuple[Metric, Metric]:
    """The worst wait and the memory of one attack."""
    wait = Metric(f"{name}: worst wait", "ms", f"<= {WAIT_MS_MAX} ms", at_most(WAIT_MS_MAX))
    return wait, Metric(f"{name}: memory beyond what was sent", "MB", f"<= {GROWN_MB_MAX} MB", at_most(GROWN_MB_MAX))


def measure(report: Report, peer: Any, name: str, wait_and_memory: tuple[Metric, Metric], scale: float) -> Damage:
    make_topic(peer, "canary", 1)
    with Canary(peer.bootstrap_servers, "canary") as canary:
        outcome = run_attack(name, Target(peer.bootstrap_servers, scale=scale), canary, peer.pid)
    wait, grown = wait_and_memory
    report.add(wait, peer.kind, outcome.waits.worst_ms)
    report.add(grown, peer.kind, max(0.001, (outcome.grown_bytes - outcome.sent_bytes) / 1e6))
    return outcome


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Hostile requests")
    for name in (each for each in ATTACKS if wanted.only in each):
        wait_and_memory = metrics(name)
        for _ in range(1 if wanted.small else min(wanted.rounds, 3)):
            # A new broker for each round: memory that an earlier attack took would hide what the next one takes.
            for peer in peers_in_turn([peer for peer in wanted.peers if peer in (OTTLA, APACHE_KAFKA)]):
                outcome = measure(report, peer, name, wait_and_memory, SMALL if wanted.small else 1.0)
                print(f"{peer.kind}: {name}: {outcome}", file=sys.stderr, flush=True)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
