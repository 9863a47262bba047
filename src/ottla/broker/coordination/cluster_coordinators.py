"""The group coordinators of all brokers of a process: what each of them does when leaders change or a topic is deleted."""

import asyncio
from collections.abc import Sequence

from ottla.broker.coordination.broker_coordinators import BrokerCoordinators
from ottla.broker.coordination.unserved_deletions import UnservedDeletions
from ottla.core.groups.coordinator import Coordinator
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.topics import CONSUMER_OFFSETS


class ClusterCoordinators:
    """`by_broker` has the coordinators of each broker, by its id. Numbers are those of partitions of the offsets topic."""

    def __init__(self, *, cluster_metadata: ClusterMetadata, unserved_deletions: UnservedDeletions) -> None:
        self.by_broker: dict[int, BrokerCoordinators] = {}
        self._cluster_metadata = cluster_metadata
        self._unserved_deletions = unserved_deletions

    def all(self) -> list[tuple[int, Coordinator]]:
        """Every coordinator, with its broker's id."""
        return [(broker_id, loop.coordinator) for broker_id, loops in self.by_broker.items() for loop in loops.all()]

    def start_all(self) -> None:
        """Start every coordinator, each on the broker that leads its partition."""
        for loops in self.by_broker.values():
            loops.start_all()

    async def loaded(self) -> None:
        """Wait until every coordinator has read its log."""
        await asyncio.gather(*(loops.loaded() for loops in self.by_broker.values()))

    def start(self, numbers: Sequence[int]) -> None:
        """Start the coordinators of some partitions, each on the broker that leads it."""
        for loops in self.by_broker.values():
            loops.start([number for number in numbers if loops.leads(number)])

    def resign(self, number: int) -> None:
        """Stop the coordinator of a partition."""
        for loops in self.by_broker.values():
            loops.resign(number)

    def resign_broker(self, broker_id: int) -> None:
        """Stop all coordinators of one broker."""
        self.by_broker[broker_id].resign_all()

    def resign_all(self) -> None:
        """Stop every coordinator."""
        for loops in self.by_broker.values():
            loops.resign_all()

    def forget_topic(self, name: str) -> None:
        """Delete the offsets that groups committed for a deleted topic; where no coordinator runs, when one does."""
        if name == CONSUMER_OFFSETS:
            self._unserved_deletions.clear()
        topic = self._cluster_metadata.topics.get(CONSUMER_OFFSETS)
        served = {number for loops in self.by_broker.values() for number in loops.forget_topics((name,))}
        for number in range(len(topic.leaders)) if topic else ():
            if number not in served:
                self._unserved_deletions.add(number, name)
