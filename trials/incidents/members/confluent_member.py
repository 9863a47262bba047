"""A member that uses confluent-kafka (librdkafka). Its log lines are librdkafka's own, on stderr."""

import time
from typing import Any

from confluent_kafka import Consumer

from trials.incidents.members.program import MemberSettings, Slowness, java_settings

POLL_S = 0.1
RECORDS_MAX = 100


class ConfluentMember:
    """See `program.Client`."""

    def __init__(self, settings: MemberSettings, slowness: Slowness) -> None:
        self._settings, self._slowness = settings, slowness
        self._consumer = self._new_consumer(settings)

    def _new_consumer(self, settings: MemberSettings) -> Any:
        named: dict[str, Any] = java_settings(settings)
        named["topic.metadata.refresh.interval.ms"] = named.pop("metadata.max.age.ms")
        if settings.protocol == "classic":
            named["partition.assignment.strategy"] = ",".join(settings.assignors)
        if settings.debug is not None:
            named["debug"] = settings.debug
        return Consumer(named)

    async def start(self) -> None:
        """Subscribe; the consumer connects by itself."""
        await self.subscribe([f"^{self._settings.pattern}"] if self._settings.pattern else list(self._settings.topics))

    async def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics instead."""
        self._consumer.subscribe(topics, on_revoke=self._on_revoke)

    async def unsubscribe(self) -> None:
        """Subscribe to nothing."""
        self._consumer.unsubscribe()

    async def poll(self) -> None:
        """Read what there is, for a moment."""
        self._consumer.consume(RECORDS_MAX, POLL_S)

    def assignment(self) -> set[str]:
        """The partitions owned now."""
        return {f"{each.topic}-{each.partition}" for each in self._consumer.assignment()}

    async def close(self) -> None:
        """Leave the group and end."""
        self._consumer.close()

    def _on_revoke(self, _consumer: Any, _partitions: list[Any]) -> None:
        time.sleep(self._slowness.take())


make_client = ConfluentMember
