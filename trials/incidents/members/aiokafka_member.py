"""A member that uses aiokafka, which logs by Python's logging."""

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from trials.incidents.members.program import MemberSettings, Slowness

POLL_MS = 100
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Takes its time when partitions are revoked."""

    def __init__(self, slowness: Slowness) -> None:
        self._slowness = slowness

    async def on_partitions_revoked(self, revoked: Any) -> None:
        """Before the member joins again."""
        await asyncio.sleep(self._slowness.take())

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing to do."""


class AiokafkaMember:
    """See `program.Client`."""

    def __init__(self, settings: MemberSettings, slowness: Slowness) -> None:
        self._settings = settings
        self._listener = Listener(slowness)
        self._is_subscribed = True
        named = {"client_id": settings.client_id} if settings.client_id else {}
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=settings.servers,
            group_id=settings.group,
            group_instance_id=settings.instance_id,
            partition_assignment_strategy=[ASSIGNORS[each] for each in settings.assignors],
            auto_offset_reset="earliest",
            enable_auto_commit=settings.commits,
            auto_commit_interval_ms=1_000,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            max_poll_interval_ms=settings.max_poll_ms,
            rebalance_timeout_ms=settings.rebalance_ms or settings.max_poll_ms,
            metadata_max_age_ms=settings.metadata_ms,
            **named,
        )

    async def start(self) -> None:
        """Connect and subscribe as the settings say."""
        if self._settings.pattern:
            self._consumer.subscribe(pattern=f"^{self._settings.pattern}", listener=self._listener)
        else:
            self._consumer.subscribe(list(self._settings.topics), listener=self._listener)
        await self._consumer.start()

    async def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics instead."""
        self._is_subscribed = True
        self._consumer.subscribe(topics, listener=self._listener)

    async def unsubscribe(self) -> None:
        """Subscribe to nothing."""
        self._consumer.unsubscribe()
        self._is_subscribed = False

    async def poll(self) -> None:
        """Read what there is, for a moment."""
        if self._is_subscribed:
            await self._consumer.getmany(timeout_ms=POLL_MS)
        else:
            await asyncio.sleep(POLL_MS / 1000)

    def assignment(self) -> set[str]:
        """The partitions owned now."""
        return {f"{each.topic}-{each.partition}" for each in self._consumer.assignment()}

    async def close(self) -> None:
        """Leave the group and end."""
        with suppress(KafkaError):  # its fetcher fails when a consumer that has unsubscribed stops; the member has left by then
            await self._consumer.stop()


make_client = AiokafkaMember
