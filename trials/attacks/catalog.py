"""All attacks by name, each run next to a canary: how long an honest client waits, and how much memory the broker takes."""

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from ottla.testing.waiting import wait_until
from tests.support.processes import resident_bytes
from trials.attacks import hostile_clients
from trials.attacks.canary import Canary, Waits
from trials.attacks.target import Target
from trials.harness.runs import Outcome, Results
from trials.harness.world import add_broker_option, make_broker

NAME = "attacks"
SAMPLE_SECONDS = 0.02

ATTACKS: Mapping[str, Callable[[Target], int]] = {
    "one topic of 10,000 partitions 300 times in Metadata": hostile_clients.metadata_of_one_topic,
    "Metadata of all topics by 20 connections": hostile_clients.metadata_of_all_topics,
    "one group 100 times in OffsetFetch": hostile_clients.offsets_of_one_group,
    "a member of 40 MB 10 times in DescribeGroups": hostile_clients.description_of_one_large_member,
    "one topic 1,000 times in IncrementalAlterConfigs": hostile_clients.changes_of_one_resource,
    "100,000 names in ten APIs": hostile_clients.many_names,
    "100,000 items in twelve APIs": hostile_clients.many_items,
    "100,000 names and partitions in ConsumerGroupHeartbeat": hostile_clients.heartbeats_of_many_names,
    "40 expressions of up to 10,000 characters": hostile_clients.heartbeats_of_expressions,
    "100,000 refused heartbeats by 20 connections": hostile_clients.refused_heartbeats,
    "5,000 members of one consumer group": hostile_clients.many_members,
    "50,000 pipelined requests by 20 connections": hostile_clients.pipelined_requests,
    "50,000 transactional ids and their zombies": hostile_clients.transactional_ids,
    "200,000 transactional ids, listed by 20 connections": hostile_clients.many_transactional_ids,
    "refused transactional requests of nine kinds, and of 50,000 producers": hostile_clients.wrong_transactions,
    "15,000 topics created by Metadata": hostile_clients.creation_by_metadata,
    "20 x 10,000 partitions in CreateTopics": hostile_clients.creation_of_many_partitions,
    "10,000 unused partitions in four APIs": hostile_clients.use_of_many_partitions,
    "a zstd batch of 1 M records 2 h ahead": hostile_clients.times_ahead,
    "a zstd batch of 13 M records, compacted topic": hostile_clients.records_of_a_compacted_topic,
    "4 M records without keys, compacted topic": hostile_clients.records_without_keys,
    "4 M records into gzip": hostile_clients.records_in_another_codec,
    "80 frame heads of 100 MB": hostile_clients.announced_frames,
    "500 connections with 200 kB of a frame": hostile_clients.half_frames,
    "20 slow readers of a 40 MB batch": hostile_clients.slow_readers,
    "2,000 silent connections": hostile_clients.silent_connections,
}
"""Each sends its requests to a target, waits for the answers, and returns how many bytes it sent."""


class Damage(NamedTuple):
    """What an attack did: the canary's waits, how much the broker's memory grew at most, bytes sent, and how long it took."""

    waits: Waits
    grown_bytes: int
    sent_bytes: int
    seconds: float


def run_attack(name: str, target: Target, canary: Canary, pid: int) -> Damage:
    """Run one attack on the broker of process `pid`."""
    canary.read()
    begun = time.monotonic()
    with PeakMemory(pid) as peak:
        sent_bytes = ATTACKS[name](target)
    return Damage(canary.read(), peak.grown_bytes, sent_bytes, time.monotonic() - begun)


class PeakMemory:
    """How much a process's resident memory grew at most while the context was open, by samples."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = Event()
        self._thread = Thread(target=self._sample, daemon=True)
        self.grown_bytes = 0

    def __enter__(self) -> "PeakMemory":
        self._first = resident_bytes(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(SAMPLE_SECONDS)
            self.grown_bytes = max(self.grown_bytes, resident_bytes(self._pid) - self._first)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which attacks, how large, on which broker."""
    parser.add_argument("attacks", nargs="*", help="parts of names; all without one")
    parser.add_argument("--scale", type=float, default=1.0, help="how large the attacks are (default: 1)")
    add_broker_option(parser)


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each attack on a new broker; wrong when the broker ends or stops answering."""
    for name in (name for name in ATTACKS if not options.attacks or any(part in name for part in options.attacks)):

        def attack(directory: Path, name: str = name) -> Outcome:
            with make_broker(options.broker, directory) as broker:
                target = Target(broker.bootstrap_servers, scale=options.scale)
                with Canary(broker.bootstrap_servers, target.topic("canary", 1)) as canary:
                    damage = run_attack(name, target, canary, broker.pid)
                    wait_until(lambda: canary.read().answered, "an answer to an honest client")
                wrong = [] if broker.is_running else ["the broker has ended"]
            grown_mb, sent_mb = damage.grown_bytes / 1e6, damage.sent_bytes / 1e6
            waits = f"{damage.waits.worst_ms:.0f} ms at worst for {damage.waits.request}"
            return Outcome(wrong, f"{waits}, {grown_mb:.0f} MB more for {sent_mb:.0f} MB sent")

        results.run_one(name, attack)
