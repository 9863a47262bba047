"""A user's assignor that raises, or whose assignment is none: both consumers say so, and leave the group when they are closed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import ottla
from ottla.client.async_consumer.errors import KafkaError
from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.testing import Broker


class Failing(Assignor):
    name = "failing"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        raise KeyError("west")


class Forgetful(Failing):
    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        return {members[0].member_id: {topic: [0] for topic in partitions}}


class Mute(Failing):
    def user_data(self, owned: Mapping[str, Sequence[int]] | None, generation: int) -> bytes | None:
        raise OSError("no data")


KINDS = pytest.mark.parametrize(
    ("kind", "said"),
    [(Failing, "raised KeyError: 'west'"), (Forgetful, "gave {topic}-1 to no member"), (Mute, "raised OSError: no data")],
)


def check(error: BaseException, kind: type[Assignor], said: str, broker: Broker, group: str) -> None:
    assert f"the assignor failing ({__name__}:{kind.__name__}) {said}" in str(error)
    broker.group(group).wait(members=0, timeout=5)


@KINDS
def test_an_assignor_that_fails(broker: Broker, new_topic: Callable[..., str], kind: type[Assignor], said: str) -> None:
    topic = new_topic(2, 4)
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"blocking-{topic}",
        "partition.assignment.strategy": f"{__name__}:{kind.__name__}",
    }
    with ottla.Consumer(config) as consumer:
        consumer.subscribe([topic])
        for _ in range(2):  # it tries again
            with pytest.raises(ottla.KafkaException) as refused:
                consumer.poll(20)
    check(refused.value, kind, said.format(topic=topic), broker, config["group.id"])


@KINDS
def test_an_assignor_that_fails_in_an_event_loop(broker: Broker, new_topic: Callable[..., str], kind: type[Assignor], said: str) -> None:
    topic = new_topic(2, 4)
    group = f"loop-{topic}"

    async def consume() -> None:
        consumer: Any = ottla.AsyncConsumer(
            topic, bootstrap_servers=broker.bootstrap_servers, group_id=group, partition_assignment_strategy=[kind]
        )
        async with consumer:
            await asyncio.wait_for(consumer.getone(), 20)

    with pytest.raises(KafkaError) as refused:
        asyncio.run(consume())
    check(refused.value, kind, said.format(topic=topic), broker, group)
