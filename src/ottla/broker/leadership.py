"""Leadership changes hands: between the brokers of a process, whose logs are shared. What may be is decided in core/catalogue/leadership.

The order of a move: the old coordinator of an offsets partition resigns (whoever waits there looks for the new one), the catalogue's log
says who leads now, the partition takes the new leader epoch and wakes its readers, and the new coordinator reads the log.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Topic
from ottla.core.catalogue.leadership import move, when_back, when_gone
from ottla.core.catalogue.records import CatalogueRecord, PartitionChangeRecord
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.errors import StorageError
from ottla.core.groups.placement import coordinator_partition, java_hash

if TYPE_CHECKING:
    from ottla.broker.cluster_state import ClusterState
    from ottla.broker.node import Node

log = logging.getLogger("ottla.broker.leadership")


class CoordinatorPlace(NamedTuple):
    """Where a group is coordinated: Java's hash of its name, the partition of the offsets topic, its leader (None: nobody), HOST:PORT."""

    group_id: str
    hash: int
    partition: int
    broker_id: int | None
    address: str | None


class Leadership:
    """Who leads what. Every change is durable before it is true; all raise StorageError when the log of the catalogue cannot be written."""

    def __init__(self, cluster: "ClusterState") -> None:
        self._cluster = cluster

    def move(self, topic: str, number: int, to: int) -> Refused | None:
        """Makes broker `to` the leader of a partition."""
        record = move(self._cluster.catalogue, topic, number, to)
        if isinstance(record, Refused):
            return record
        if record is not None:
            self._change([record])
        return None

    def gone(self, node: "Node") -> None:
        """A broker stops: others take over what they hold too; the rest is led by nobody until it comes back."""
        live_ids = self._cluster.catalogue.live_ids
        live_ids.discard(node.id)
        try:
            self._change(when_gone(self._cluster.catalogue, node.id))
        except StorageError:
            live_ids.add(node.id)
            raise
        node.groups.drop()

    def back(self, node: "Node") -> None:
        """A broker has come: it leads what nobody could lead without it."""
        live_ids = self._cluster.catalogue.live_ids
        live_ids.add(node.id)
        try:
            self._change(when_back(self._cluster.catalogue, node.id))
        except StorageError:
            live_ids.discard(node.id)
            raise

    def coordinator(self, group_id: str) -> CoordinatorPlace:
        """Who coordinates a group; the offsets topic is made if this is its first use."""
        topic = self._cluster.topics.ensure(CONSUMER_OFFSETS)
        assert isinstance(topic, Topic), "the offsets topic's own settings were refused"
        number = coordinator_partition(group_id, len(topic.leaders))
        node = self._cluster.nodes.get(topic.leaders[number])
        if node is None:
            return CoordinatorPlace(group_id, java_hash(group_id), number, None, None)
        return CoordinatorPlace(group_id, java_hash(group_id), number, node.id, node.address)

    def _change(self, records: Sequence[CatalogueRecord]) -> None:
        if not records:
            return
        changes = [(self._topic(record), record.partition) for record in records if isinstance(record, PartitionChangeRecord)]
        coordinated = [number for topic, number in changes if topic.name == CONSUMER_OFFSETS]
        for number in coordinated:
            for node in self._cluster.nodes.values():
                node.groups.resign(number)
        try:
            self._cluster.append_to_catalogue(records)
            for topic, number in changes:
                self._cluster.partitions.leader_changed(topic, number)
        finally:  # whoever leads them now, or as before when nothing could be written
            self._take(coordinated)

    def _take(self, numbers: Sequence[int]) -> None:
        topic = self._cluster.catalogue.topics.get(CONSUMER_OFFSETS)
        for node in self._cluster.nodes.values() if topic else ():
            node.groups.take([number for number in numbers if topic and node.leads(topic, number)])

    def _topic(self, record: PartitionChangeRecord) -> Topic:
        return self._cluster.catalogue.topics_by_id[record.topic_id]
