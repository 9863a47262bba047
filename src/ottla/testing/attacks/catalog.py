"""All attacks by name, and a function that runs one next to a canary and samples the broker's memory."""

import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import NamedTuple

from ottla.testing.attacks import memory, records, requests
from ottla.testing.attacks.canary import Canary, Waits
from ottla.testing.attacks.target import Target
from ottla.testing.processes.process_tree import resident_bytes

SAMPLE_SECONDS = 0.02

ATTACKS: Mapping[str, Callable[[Target], int]] = {
    "one topic of 10,000 partitions 300 times in Metadata": requests.metadata_of_one_topic,
    "Metadata of all topics by 20 connections": requests.metadata_of_all_topics,
    "one group 100 times in OffsetFetch": requests.offsets_of_one_group,
    "a member of 40 MB 10 times in DescribeGroups": requests.description_of_one_large_member,
    "one topic 1,000 times in IncrementalAlterConfigs": requests.changes_of_one_resource,
    "100,000 names in ten APIs": requests.many_names,
    "100,000 items in twelve APIs": requests.many_items,
    "50,000 pipelined requests by 20 connections": requests.pipelined_requests,
    "15,000 topics created by Metadata": requests.creation_by_metadata,
    "20 x 10,000 partitions in CreateTopics": requests.creation_of_many_partitions,
    "10,000 unused partitions in four APIs": requests.use_of_many_partitions,
    "a zstd batch of 1 M records 2 h ahead": records.times_ahead,
    "a zstd batch of 13 M records, compacted topic": records.records_of_a_compacted_topic,
    "4 M records without keys, compacted topic": records.records_without_keys,
    "4 M records into gzip": records.records_in_another_codec,
    "80 frame heads of 100 MB": memory.announced_frames,
    "500 connections with 200 kB of a frame": memory.half_frames,
    "20 slow readers of a 40 MB batch": memory.slow_readers,
    "2,000 silent connections": memory.silent_connections,
}
"""Each sends its requests to a target, waits for the answers, and returns how many bytes it sent."""


class Outcome(NamedTuple):
    """What an attack did: the canary's waits, how much the broker's memory grew at most, bytes sent, and how long it took."""

    waits: Waits
    grown_bytes: int
    sent_bytes: int
    seconds: float


def run_attack(name: str, target: Target, canary: Canary, pid: int) -> Outcome:
    """Run one attack on the broker of process `pid`."""
    canary.read()
    begun = time.monotonic()
    with PeakMemory(pid) as peak:
        sent_bytes = ATTACKS[name](target)
    return Outcome(canary.read(), peak.grown_bytes, sent_bytes, time.monotonic() - begun)


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
