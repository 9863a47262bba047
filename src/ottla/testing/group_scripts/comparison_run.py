"""Many scripts on two brokers at once: what a test needs to say, in one call, in what they differ.

It creates the topics, runs the scripts in threads (they mostly wait), repeats those for which the machine was too slow, and compares the
records that each script wrote.
"""

import time
import uuid
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any

from ottla.testing.clients.raw_client import RawClient
from ottla.testing.group_scripts.known_differences import UNREADABLE
from ottla.testing.group_scripts.masks import Masks
from ottla.testing.group_scripts.player import Player
from ottla.testing.group_scripts.records import SUFFIXES, comparable_records, read_group_records
from ottla.testing.group_scripts.script import TOPICS, Script
from ottla.testing.group_scripts.script_comparison import Outcome, ScriptComparison, TooSlow, differences

LIST_OFFSETS, METADATA, FIND_COORDINATOR, OFFSET_FETCH, CREATE_TOPICS = 2, 3, 10, 9, 19
ATTEMPTS_MAX = 4
READY_SECONDS_MAX = 30
TOPIC_ALREADY_EXISTS = 36


class ComparisonRun:
    """Runs scripts on two brokers; the first one is the reference. `prefix` makes the names of this run unique.

    As many scripts as there are threads are under way, most of them waiting; of those that need not hurry, as many as there are slots
    take a step at any time.
    """

    def __init__(
        self, reference: str, ours: str, prefix: str, *, group_size_max: int | None = None, threads: int = 16, slots: int = 3
    ) -> None:
        self.brokers = (reference, ours)
        self.prefix = prefix
        self.group_size_max = group_size_max
        self.threads = threads
        self.outcomes: list[Outcome] = []
        self._slots = Semaphore(slots)
        self._masks: dict[str, tuple[Masks, Masks]] = {}
        self._topic_ids = [make_topics(broker, TOPICS) for broker in self.brokers]

    def play(self, seeds: Iterable[int]) -> None:
        """Run a script of each seed, those first that wait most."""
        in_order = sorted(seeds, key=lambda seed: not Script(seed, "").style.hurried)
        with ThreadPoolExecutor(self.threads) as pool:
            self.outcomes.extend(pool.map(self._play_until_quick, in_order))

    def compare_records(self) -> None:
        """Compare the records of every script that ran to its end; differences go to its outcome."""
        theirs, ours = (read_group_records(broker) for broker in self.brokers)
        for outcome in self.outcomes:
            # A rebalance that hangs on one broker continues by its timers on the other.
            if outcome.differences or outcome.too_slow or UNREADABLE in outcome.explained:
                continue
            for suffix in ("", *SUFFIXES):
                group = outcome.group + suffix
                one, other = self._masks[outcome.group]
                found = differences(comparable_records(ours[group], other), comparable_records(theirs[group], one), f"records of {group}")
                outcome.differences.extend(found)

    @property
    def explained(self) -> Counter[str]:
        """How often each reason explained a difference."""
        return sum((outcome.explained for outcome in self.outcomes), Counter())

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of step was taken."""
        return sum((outcome.kinds for outcome in self.outcomes), Counter())

    @property
    def pairs(self) -> int:
        """Of how many pairs of answers the order was compared."""
        return sum(outcome.pairs for outcome in self.outcomes)

    @property
    def too_slow(self) -> list[str]:
        """Scripts without a result, since the machine was too busy for their timers, several times."""
        return [outcome.too_slow for outcome in self.outcomes if outcome.too_slow]

    @property
    def errors(self) -> Counter[int]:
        """How often both answered each error code."""
        return sum((outcome.errors for outcome in self.outcomes), Counter())

    def report(self, seeds: Container[int] | None = None) -> str:
        """Every unexplained difference of these seeds (None: of all), with the steps that led there; empty if there is none."""
        lines = []
        for outcome in self.outcomes:
            if outcome.differences and (seeds is None or outcome.seed in seeds):
                lines += [f"seed {outcome.seed}:", *outcome.steps, *outcome.differences[:6], ""]
        return "\n".join(lines)

    def _play_until_quick(self, seed: int) -> Outcome:
        for attempt in range(ATTEMPTS_MAX):
            group = f"{self.prefix}-{seed}-{attempt}"
            script = Script(seed, group, group_size_max=self.group_size_max)
            topic_ids: list[Mapping[str, uuid.UUID]] = list(self._topic_ids)
            if script.own_topic:
                topic_ids = [known | make_topics(broker, {script.own_topic: 2}) for broker, known in zip(self.brokers, self._topic_ids)]
            one, other = (Masks(ids) for ids in topic_ids)
            self._masks[group] = one, other
            players = Player(self.brokers[0], group, one), Player(self.brokers[1], group, other)
            comparison = ScriptComparison(script, players, self._slots)
            try:
                return comparison.play()
            except TooSlow as slow:
                comparison.outcome.too_slow = str(slow)
            finally:
                for player in players:
                    player.close()
        return comparison.outcome


def make_topics(bootstrap_servers: str, topics: Mapping[str, int]) -> dict[str, uuid.UUID]:
    """Create topics and wait until they and the coordinator can be used; returns the topic ids."""
    with RawClient(bootstrap_servers) as client:
        wanted = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in topics.items()]
        for made in client.call(CREATE_TOPICS, 7, timeout=10_000, topics=wanted).topics:
            assert made.error_code in (0, TOPIC_ALREADY_EXISTS), made
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not _is_ready(client, topics):
            assert time.monotonic() < deadline, f"{bootstrap_servers}: {list(topics)} are not ready"
            time.sleep(0.02)
        described = client.call(METADATA, 12, topics=[{"name": name} for name in topics], allow_auto_topic_creation=False)
        return {topic.name: topic.topic_id for topic in described.topics}


def _is_ready(client: RawClient, topics: Mapping[str, int]) -> bool:
    for name, count in topics.items():
        (seen,) = client.call(METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics
        asked = [{"partition_index": number, "timestamp": -1} for number in range(count)]
        listed: Any = client.call(LIST_OFFSETS, 1, replica_id=-1, topics=[{"name": name, "partitions": asked}]).topics[0].partitions
        if seen.error_code or any(part.error_code for part in (*seen.partitions, *listed)):
            return False
    if client.call(FIND_COORDINATOR, 0, key="any-group").error_code:
        return False
    return bool(client.call(OFFSET_FETCH, 5, group_id="any-group", topics=[]).error_code == 0)
