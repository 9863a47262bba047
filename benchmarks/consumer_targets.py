"""The target assignment of a consumer group of 5,000 members and 10,000 partitions (20 topics) in one process, without sockets or a log.

CPU milliseconds of the heartbeat that computes the target, and of its event as JSON, which a broker makes when its loop is next free. A
member joins, or has left; members subscribe to all topics, or each to ten of its own. The others have followed the target before. Garbage
is collected as in a broker's process.
"""

import gc
import time
from collections.abc import Collection, Mapping
from random import Random
from typing import Any

from peers import OTTLA, arguments
from report import Metric, Report

from ottla.cli.commands.broker import ALLOCATIONS_PER_COLLECTION
from ottla.coordinator.coordinator import FinishLoading
from ottla.groups.assignors import coordinator_assignors
from ottla.groups.commands import ConsumerGroupHeartbeat, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import event_json
from ottla.groups.settings import GroupSettings
from trials.scenarios.scenarios import ScenarioTopics

MEMBERS, TOPICS, PARTITIONS = 5_000, 20, 500
MEMBERS_SMALL, PARTITIONS_SMALL = 50, 5
TARGETS, TARGETS_SMALL = 8, 2
LEAVE = -1
INTERVAL_MS = 1_000
LARGE = GroupSettings(consumer_assignors=coordinator_assignors(), consumer_max_size=2 * MEMBERS)


class Group:
    """The group "g" of a coordinator whose records are applied at once; time passes only with `next_target`."""

    def __init__(self, topics: ScenarioTopics) -> None:
        self.coordinator = GroupCoordinator(LARGE, topics=topics)
        self.now_ms = 1
        self.epochs: dict[str, int] = {}
        self.coordinator.handle(FinishLoading(), now_ms=1, timer_ms=1)

    def beat(
        self, name: str, epoch: int, topics: frozenset[str] | None = None, owned: Mapping[bytes, Collection[int]] | None = None
    ) -> tuple[float, GroupEffects]:
        """A heartbeat: CPU seconds of deciding it, and its effects."""
        command = ConsumerGroupHeartbeat(
            reply_to=1,
            group_id="g",
            member_id=name,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=-1 if topics is None else 300_000,
            topics=topics,
            regex=None,
            assignor=None,
            owned=owned if topics is None else {},
            client_id="client",
            client_host="/127.0.0.1",
        )
        begin = time.process_time()
        effects = self.coordinator.handle(command, now_ms=self.now_ms, timer_ms=self.now_ms)
        seconds = time.process_time() - begin
        for record in effects.records:
            self.coordinator.replay(record)
        result: Any = effects.replies[0].result
        self.epochs[name] = result.member_epoch
        return seconds, effects

    def leave(self, name: str) -> None:
        """A member leaves."""
        self.beat(name, LEAVE)
        del self.epochs[name]

    def next_target(self, name: str, topics: frozenset[str]) -> tuple[float, float]:
        """A member joins (again) when a target is due: CPU milliseconds of its heartbeat, and of the events' JSON. All follow it."""
        self.now_ms += INTERVAL_MS
        seconds, effects = self.beat(name, 0, topics)
        assert any(event.kind == "target_assigned" for event in effects.events), "there was no target"
        begin = time.process_time()
        for event in effects.events:
            event_json(event)
        json_seconds = time.process_time() - begin
        group: Any = self.coordinator.state.groups["g"]
        members = group.durable.members
        while behind := [each for each in members.values() if each.state or each.member_epoch != group.durable.assignment_epoch]:
            for member in behind:
                self.beat(member.member_id, self.epochs[member.member_id], owned=member.assigned)
        return seconds * 1_000, json_seconds * 1_000


def main() -> None:
    wanted = arguments(__doc__)
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION, 10, 10)
    report = Report("Targets of a consumer group, in process")
    topics = ScenarioTopics()
    topics.set({f"topic-{number:02}": PARTITIONS_SMALL if wanted.small else PARTITIONS for number in range(TOPICS)})
    names, rng = sorted(topics.topics), Random(1)
    for kind in ("all topics", "ten topics each"):

        def subscribed(kind: str = kind) -> frozenset[str]:
            return frozenset(names if kind == "all topics" else rng.sample(names, TOPICS // 2))

        group = Group(topics)
        for number in range(MEMBERS_SMALL if wanted.small else MEMBERS):
            group.beat(f"member-{number:05}", 0, subscribed())
        first = subscribed()
        group.next_target("member-00000", first)
        for _ in range(TARGETS_SMALL if wanted.small else TARGETS):
            joined = group.next_target("extra", subscribed())
            group.leave("extra")
            left = group.next_target("member-00000", first)
            for moment, found in (("one joins", joined), ("one has left", left)):
                for what, value in zip(("decided", "event as JSON"), found, strict=True):
                    report.add(Metric(f"{kind}, {moment}, {what}", "ms"), OTTLA, value)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
