"""`ConsumerRebalanceListener` of aiokafka's interface, and how its methods are called: they may be functions or coroutines."""

import inspect
import logging
from collections.abc import Iterable
from typing import Any, Final

from ottla.client.engine.rebalances import ASSIGNED, LOST
from ottla.protocol.model import TopicPartition

_LOG: Final = logging.getLogger("ottla.consumer")


class ConsumerRebalanceListener:
    """What an application does when its partitions change. aiokafka's own class does as well: the methods alone count."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Before the member joins again; `revoked`: the partitions that it gives up, empty when it has none."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """After a rebalance, before records of `assigned` are handed out."""


class Notifier:
    """Calls a listener. `is_cooperative`: revocations are called for those partitions alone that move."""

    def __init__(self, *, is_cooperative: bool) -> None:
        self.listener: Any = None
        self._is_cooperative = is_cooperative
        self._is_revoked = False

    async def call(self, kind: str, partitions: Iterable[TopicPartition]) -> None:
        """Call the method for a callback of the engine, and wait until it is over. What it raises is logged, as in aiokafka."""
        if kind != ASSIGNED:
            self._is_revoked = True
            await self._call("on_partitions_lost" if kind == LOST else "on_partitions_revoked", set(partitions))
            return
        if not self._is_revoked and not self._is_cooperative:
            # aiokafka calls it before each rebalance, also where nothing is given up.
            await self._call("on_partitions_revoked", set())
        self._is_revoked = False
        await self._call("on_partitions_assigned", set(partitions))

    async def _call(self, name: str, partitions: set[TopicPartition]) -> None:
        if self.listener is None:
            return
        method = getattr(self.listener, name, None) or self.listener.on_partitions_revoked
        try:
            result = method(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 - a listener's error ends no rebalance
            _LOG.exception("%s of the rebalance listener %r failed with partitions %s", name, self.listener, sorted(partitions))
