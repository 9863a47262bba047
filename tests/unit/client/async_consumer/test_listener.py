"""How rebalance listeners are called."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import aiokafka
import pytest

from ottla.client.async_consumer.listener import ConsumerRebalanceListener, Notifier
from ottla.client.engine.rebalances import ASSIGNED, LOST, REVOKED
from ottla.protocol.model import TopicPartition

T0 = TopicPartition("t", 0)


class Plain(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Any]]] = []

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.calls.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.calls.append(("assigned", assigned))


class Async(Plain):
    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        await asyncio.sleep(0)
        super().on_partitions_revoked(revoked)

    async def on_partitions_lost(self, lost: set[Any]) -> None:
        self.calls.append(("lost", lost))


def notify(listener: Any, *callbacks: tuple[str, Iterable[TopicPartition]], is_cooperative: bool = False) -> None:
    async def call() -> None:
        notifier = Notifier(is_cooperative=is_cooperative)
        notifier.listener = listener
        for kind, partitions in callbacks:
            await notifier.call(kind, partitions)

    asyncio.run(call())


@pytest.mark.parametrize("kind", [Plain, Async])
def test_revoked_is_called_before_each_rebalance(kind: Any) -> None:
    listener = kind()
    notify(listener, (ASSIGNED, [T0]), (REVOKED, [T0]), (ASSIGNED, []))
    assert listener.calls == [("revoked", set()), ("assigned", {T0}), ("revoked", {T0}), ("assigned", set())]


def test_in_a_cooperative_group_only_for_what_moves() -> None:
    listener = Plain()
    notify(listener, (ASSIGNED, [T0]), (REVOKED, [T0]), is_cooperative=True)
    assert listener.calls == [("assigned", {T0}), ("revoked", {T0})]


def test_lost_partitions_are_revoked_unless_the_listener_has_a_method_for_them() -> None:
    plain, apart = Plain(), Async()
    notify(plain, (LOST, [T0]))
    notify(apart, (LOST, [T0]))
    assert (plain.calls, apart.calls) == ([("revoked", {T0})], [("lost", {T0})])


def test_what_a_listener_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            raise ZeroDivisionError

    with caplog.at_level(logging.ERROR, "ottla.consumer"):
        notify(Broken(), (ASSIGNED, [T0]))
        notify(None, (ASSIGNED, [T0]))
    (record,) = caplog.records
    assert "on_partitions_assigned of the rebalance listener" in record.getMessage()
