"""What the group is doing right now, read from the broker's own group events: who is in it, with which partitions, and what set it off.

It follows the topic `__ottla_group_events` and answers questions about what has been seen. It waits for nothing and changes nothing.
"""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger(__name__)

EVENTS_TOPIC = "__ottla_group_events"


@dataclass(frozen=True, slots=True)
class Seen:
    """One trigger that has been seen: its cause code, the client, and its place among all triggers."""

    number: int
    cause: str
    client_id: str


@dataclass(slots=True)
class GroupPicture:
    """The group as its events show it so far. `partitions` is empty while a rebalance is under way."""

    group: str
    is_stable: bool = False
    generation: int = -1
    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    triggers: list[Seen] = field(default_factory=list)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in one event, as it is published (GroupEvent.to_dict)."""
        if event["group"] != self.group:
            return
        if event["kind"] == "trigger":
            self.triggers.append(Seen(len(self.triggers), event["trigger"], event["client_id"] or ""))
        if event["kind"] not in ("trigger", "join_completed", "sync_completed", "emptied"):
            return
        self.is_stable = event["kind"] == "sync_completed"
        self.generation = event["generation"]
        self.partitions = {
            member["client_id"]: [partition for numbers in member["assignment"].values() for partition in numbers]
            for member in event["members"]
            if self.is_stable
        }

    def is_settled(self, clients: frozenset[str], partition_count: int) -> bool:
        """Whether exactly these clients are in the group, and every partition has its owner."""
        owned = sorted(partition for numbers in self.partitions.values() for partition in numbers)
        return self.is_stable and frozenset(self.partitions) == clients and owned == list(range(partition_count))

    def has_seen(self, client_id: str, causes: frozenset[str], *, since: int) -> bool:
        """Whether one of these causes has struck this client since there were `since` triggers."""
        return any(seen.client_id == client_id and seen.cause in causes for seen in self.triggers[since:])

    def __str__(self) -> str:
        state = "stable" if self.is_stable else "rebalancing"
        owned = ", ".join(f"{client}: {len(numbers)}" for client, numbers in sorted(self.partitions.items()))
        last = f", last trigger {self.triggers[-1].cause} by {self.triggers[-1].client_id}" if self.triggers else ""
        return f"{state} in generation {self.generation} (partitions by client: {owned or 'unknown'}{last})"


class EventReader:
    """Reads the events topic from its beginning, without a group of its own. `values`: all that was read, as it was published."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Consumer

        self.values: list[bytes] = []

        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "demo-watch",
                "group.id": "demo-watch",  # librdkafka wants a name; nothing is committed under it
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "logger": log,
            }
        )
        self._is_assigned = False

    def read(self, seconds: float) -> list[Mapping[str, Any]]:
        """The events that have come since the last call, waiting `seconds` at most for the first."""
        from confluent_kafka import TopicPartition

        if not self._is_assigned:
            # The broker makes the topic with the first event.
            if EVENTS_TOPIC not in self._consumer.list_topics(timeout=10).topics:
                time.sleep(seconds)
                return []
            self._consumer.assign([TopicPartition(EVENTS_TOPIC, 0, 0)])
            self._is_assigned = True
        values = [message.value() for message in self._consumer.consume(100, seconds) if message.error() is None]
        self.values += values
        return [json.loads(value) for value in values]

    def close(self) -> None:
        """End the connection."""
        self._consumer.close()
