"""Requests by dice to three brokers, while coordinators move, brokers stop, topics go and appends fail: in the end everybody has been
answered once, each offsets partition has one coordinator, and what it knows is what its log says."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.broker.dispatch import dispatch, read_request
from ottla.broker.group_loading import load_groups
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, NewTopic
from ottla.core.errors import StorageError
from ottla.core.groups.log_fold import PlainFold

TURNS, BROKERS, GROUPS = 100, (1, 2, 3), ("g0", "g1", "g2", "g3")
PROTOCOLS = [[{"name": name, "metadata": b""}, {"name": "both", "metadata": b""}] for name in ("range", "roundrobin")]


class Stress:
    """The dice, the brokers, and the requests that nobody has answered yet."""

    def __init__(self, seed: int, make_api: Callable[..., Any]) -> None:
        self.dice = random.Random(seed)
        flushes = self.dice.choice(("1", "9223372036854775807"))
        config = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "5", "group.min.session.timeout.ms": "5"}
        self.api = make_api({**config, "log.flush.interval.messages": flushes}, brokers=len(BROKERS))
        self.cluster = self.api.cluster
        for topic in "tu":
            self.cluster.topics.create(NewTopic(name=topic, partitions=1))
        self.open: dict[int, int] = {}
        self.sent = 0
        self.appends_fail = False

    def send(self, key: int, version: int, group: str, /, **fields: Any) -> None:
        self.sent += 1
        number = self.sent
        leader = self.cluster.leadership.coordinator(group).broker_id
        node = self.cluster.nodes[self.dice.choice(BROKERS) if leader is None or self.dice.random() < 0.1 else leader]
        served, request = read_request(memoryview(self.api.encode(key, version, fields)), "/127.0.0.1")
        request.send = lambda _parts: self.open.pop(number)  # KeyError: answered twice
        request.fail = self.fail
        self.open[number] = key
        dispatch(node, served, request)

    def fail(self, error: Exception) -> None:
        raise AssertionError("a request failed") from error

    def members(self, group: str) -> tuple[int, list[tuple[str, str | None]]]:
        """The group's generation and members, as its coordinator knows them."""
        for loop in self.loops():
            found = loop.coordinator.registry.groups.get(group)
            if found is not None and found.members:
                return found.generation, [(each.member_id, each.instance_id) for each in found.members.values()]
        return 0, [("stranger", None)]

    def request(self) -> None:
        dice, group = self.dice, self.dice.choice(GROUPS)
        generation, members = self.members(group)
        member_id, instance_id = dice.choice(members)
        who = {"group_id": group, "member_id": member_id, "group_instance_id": instance_id}
        match dice.choices(range(7), (6, 5, 4, 2, 1, 1, 1))[0]:
            case 0:
                anonymous = {"member_id": "", "group_instance_id": None, "generation_id_or_member_epoch": -1}
                own = {"generation_id_or_member_epoch": generation} if dice.random() < 0.6 else anonymous
                text = dice.choice(("", "m"))
                part = {"partition_index": 0, "committed_offset": self.sent, "committed_metadata": text, "committed_leader_epoch": -1}
                self.send(8, 8, group, **{**who, **own}, topics=[{"name": dice.choice("tu"), "partitions": [part]}])
            case 1:
                new = {"member_id": "", "group_instance_id": dice.choice((None, "i", "j"))} if dice.random() < 0.5 else {}
                timeouts = {"session_timeout": dice.choice((5, 50, 1000)), "rebalance_timeout": dice.choice((0, 5, 50, 1000))}
                kind = {"protocol_type": "consumer", "protocols": dice.choice(PROTOCOLS), "reason": None}
                self.send(11, dice.choice((3, 9)), group, **{**who, **new}, **timeouts, **kind)
            case 2:
                plan = [{"member_id": each, "assignment": b"a"} for each, _ in members]
                self.send(14, 3, group, **who, generation_id=generation, assignments=plan)
            case 3:
                self.send(12, 4, group, **who, generation_id=generation)
            case 4:
                self.send(13, 4, group, group_id=group, members=[{"member_id": member_id, "group_instance_id": instance_id}])
            case 5:
                self.send(9, 7, group, group_id=group, topics=None, require_stable=False)
            case _:
                self.send(42, 2, group, groups_names=[group, dice.choice(GROUPS)])

    def upheaval(self) -> None:
        dice, cluster = self.dice, self.cluster
        stopped = [node for node in cluster.nodes.values() if not node.is_alive]
        match dice.choices(range(3), (4, 1, 1))[0]:
            case 0:
                cluster.leadership.move(CONSUMER_OFFSETS, dice.randrange(2), dice.choice(BROKERS))
            case 1 if stopped:
                cluster.leadership.back(stopped[0])
            case 1:
                cluster.leadership.gone(cluster.nodes[dice.choice(BROKERS)])
            case _:
                topic = dice.choice("tu")
                if cluster.delete_topic(topic) is not None:
                    cluster.topics.create(NewTopic(name=topic, partitions=1))

    async def run(self) -> None:
        for _ in range(TURNS):
            self.appends_fail = self.dice.random() < 0.15
            for _ in range(self.dice.randrange(1, 12)):
                (self.upheaval if self.dice.random() < 0.04 else self.request)()
            await asyncio.sleep(self.dice.choice((0, 0.003)))
            self.api.now_ms += self.dice.choice((0, 0, 1, 5, 60))
        self.appends_fail = False
        for node in self.cluster.nodes.values():
            if not node.is_alive:
                self.cluster.leadership.back(node)
        await self.cluster.loaded(5)
        await self.wait_for_everybody()

    async def wait_for_everybody(self) -> None:
        for _ in range(1000):
            if not self.open:
                return
            self.api.now_ms += 50
            for loop in self.loops():
                loop._ring()  # the loop's own alarms go by real time
            await asyncio.sleep(0)

    def loops(self) -> Iterator[CoordinatorLoop]:
        return (loop for node in self.cluster.nodes.values() for loop in node.groups.loops())


@pytest.mark.parametrize("seed", range(5))
def test_everybody_is_answered_and_memory_is_what_the_log_says(make_api, monkeypatch, seed: int) -> None:
    stress = Stress(seed, make_api)
    append = CoordinatorLoop._append

    def may_fail(loop: CoordinatorLoop, section: bytes, count: int, *, bytes_max: int | None) -> None:
        if stress.appends_fail and stress.dice.random() < 0.5:
            raise StorageError("the disk is full")
        append(loop, section, count, bytes_max=bytes_max)

    monkeypatch.setattr(CoordinatorLoop, "_append", may_fail)
    stress.api.runner.run(stress.run())
    assert stress.open == {}
    assert all(node.groups._waiting == {} for node in stress.cluster.nodes.values())
    assert sorted(loop.coordinator.partition for loop in stress.loops()) == [0, 1]
    for loop in stress.loops():
        loop.settle()
        assert load_groups(loop.partition.log, PlainFold).durable == loop.coordinator.registry.durable
