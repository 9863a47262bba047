"""Random requests to three brokers, while coordinators move, brokers stop, topics are deleted and appends fail: in the end every request
has been answered once, each offsets partition has one coordinator, and its state is what its log holds."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.coordinator.loading import load
from ottla.coordinator.loop import CoordinatorLoop
from ottla.groups.log.replayed_state import ReferenceReducer
from ottla.metadata.topics import CONSUMER_OFFSETS, NewTopic
from ottla.protocol.errors import StorageError
from ottla.protocol.wire.api_keys import ApiKey

STEPS, BROKERS, GROUPS = 100, (1, 2, 3), ("g0", "g1", "g2", "g3")
PROTOCOLS = [[{"name": name, "metadata": b""}, {"name": "both", "metadata": b""}] for name in ("range", "roundrobin")]


class Stress:
    """The brokers, and the requests that have not been answered yet."""

    def __init__(self, seed: int, make_api: Callable[..., Any], files: Any) -> None:
        self.rng = random.Random(seed)
        flushes = self.rng.choice(("1", "9223372036854775807"))
        config = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "5", "group.min.session.timeout.ms": "5"}
        self.api = make_api({**config, "log.flush.interval.messages": flushes}, files=files, brokers=len(BROKERS))
        self.cluster = self.api.cluster
        for topic in "tu":
            self.cluster.topics.create(NewTopic(name=topic, partitions=1))
        self.open: dict[int, int] = {}
        self.sent = 0
        self.appends_fail = False
        files.before_append = self.before_append

    def before_append(self, path: str) -> None:
        """Half of the appends to the offsets topic fail while `appends_fail`."""
        if self.appends_fail and path.startswith(CONSUMER_OFFSETS) and path.endswith(".log") and self.rng.random() < 0.5:
            raise StorageError("the disk is full")

    def send(self, key: int, version: int, group: str, /, **fields: Any) -> None:
        self.sent += 1
        number = self.sent
        leader = self.cluster.leadership.coordinator(group).broker_id
        node = self.cluster.brokers.nodes[self.rng.choice(BROKERS) if leader is None or self.rng.random() < 0.1 else leader]
        dispatcher = self.api.dispatchers[node.id]
        served, request = dispatcher.read_request(memoryview(self.api.encode(key, version, fields)), self.api.session)
        request.send = lambda _parts: self.open.pop(number)  # KeyError: answered twice
        request.fail = self.fail
        self.open[number] = key
        dispatcher.dispatch(served, request)

    def fail(self, error: Exception) -> None:
        raise AssertionError("a request failed") from error

    def members(self, group: str) -> tuple[int, list[tuple[str, str | None]]]:
        """The group's generation and members, as its coordinator knows them."""
        for loop in self.loops():
            found = loop.coordinator.state.groups.get(group)
            if found is not None and found.members:
                return found.generation, [(each.member_id, each.instance_id) for each in found.members.values()]
        return 0, [("stranger", None)]

    def request(self) -> None:
        rng, group = self.rng, self.rng.choice(GROUPS)
        generation, members = self.members(group)
        member_id, instance_id = rng.choice(members)
        who = {"group_id": group, "member_id": member_id, "group_instance_id": instance_id}
        match rng.choices(range(7), (6, 5, 4, 2, 1, 1, 1))[0]:
            case 0:
                anonymous = {"member_id": "", "group_instance_id": None, "generation_id_or_member_epoch": -1}
                own = {"generation_id_or_member_epoch": generation} if rng.random() < 0.6 else anonymous
                text = rng.choice(("", "m"))
                part = {"partition_index": 0, "committed_offset": self.sent, "committed_metadata": text, "committed_leader_epoch": -1}
                self.send(ApiKey.OFFSET_COMMIT, 8, group, **{**who, **own}, topics=[{"name": rng.choice("tu"), "partitions": [part]}])
            case 1:
                new = {"member_id": "", "group_instance_id": rng.choice((None, "i", "j"))} if rng.random() < 0.5 else {}
                timeouts = {"session_timeout": rng.choice((5, 50, 1000)), "rebalance_timeout": rng.choice((0, 5, 50, 1000))}
                kind = {"protocol_type": "consumer", "protocols": rng.choice(PROTOCOLS), "reason": None}
                self.send(ApiKey.JOIN_GROUP, rng.choice((3, 9)), group, **{**who, **new}, **timeouts, **kind)
            case 2:
                assignments = [{"member_id": each, "assignment": b"a"} for each, _ in members]
                self.send(ApiKey.SYNC_GROUP, 3, group, **who, generation_id=generation, assignments=assignments)
            case 3:
                self.send(ApiKey.HEARTBEAT, 4, group, **who, generation_id=generation)
            case 4:
                self.send(
                    ApiKey.LEAVE_GROUP, 4, group, group_id=group, members=[{"member_id": member_id, "group_instance_id": instance_id}]
                )
            case 5:
                self.send(ApiKey.OFFSET_FETCH, 7, group, group_id=group, topics=None, require_stable=False)
            case _:
                self.send(ApiKey.DELETE_GROUPS, 2, group, groups_names=[group, rng.choice(GROUPS)])

    def upheaval(self) -> None:
        rng, cluster = self.rng, self.cluster
        stopped = [node for node in cluster.brokers.nodes.values() if not node.is_alive]
        match rng.choices(range(3), (4, 1, 1))[0]:
            case 0:
                cluster.leadership.move(CONSUMER_OFFSETS, rng.randrange(2), rng.choice(BROKERS))
            case 1 if stopped:
                cluster.leadership.broker_started(stopped[0])
            case 1:
                cluster.leadership.broker_stopped(cluster.brokers.nodes[rng.choice(BROKERS)])
            case _:
                topic = rng.choice("tu")
                if cluster.topic_deletion.delete(topic) is not None:
                    cluster.topics.create(NewTopic(name=topic, partitions=1))

    async def run(self) -> None:
        for _ in range(STEPS):
            self.appends_fail = self.rng.random() < 0.15
            for _ in range(self.rng.randrange(1, 12)):
                (self.upheaval if self.rng.random() < 0.04 else self.request)()
            await asyncio.sleep(self.rng.choice((0, 0.003)))
            self.api.now_ms += self.rng.choice((0, 0, 1, 5, 60))
        self.appends_fail = False
        for node in self.cluster.brokers.nodes.values():
            if not node.is_alive:
                self.cluster.leadership.broker_started(node)
        await self.cluster.loaded(5)
        await self.wait_for_answers()

    async def wait_for_answers(self) -> None:
        for _ in range(1000):
            if not self.open:
                return
            self.api.now_ms += 50
            for loop in self.loops():
                loop.fire_due_timers()  # the loop's own timers go by real time
            await asyncio.sleep(0)

    def loops(self) -> Iterator[CoordinatorLoop]:
        return (loop for loops in self.cluster.coordinators.by_broker.values() for loop in loops.all())


@pytest.mark.parametrize("seed", range(5))
def test_every_request_is_answered_and_state_is_what_the_log_holds(make_api, hooked_files, seed: int) -> None:
    stress = Stress(seed, make_api, hooked_files)
    stress.api.runner.run(stress.run())
    assert stress.open == {}
    assert [len(groups.replies) for groups in stress.cluster.groups.values()] == [0] * len(BROKERS)
    assert sorted(loop.coordinator.partition for loop in stress.loops()) == [0, 1]
    for loop in stress.loops():
        loop.flush()
        assert load(loop.partition.log, ReferenceReducer).replayed == loop.coordinator.state.replayed
