"""The engine of `ottla.Consumer` with group.protocol=consumer against our coordinator, in virtual time; one seed is one run.

Connections break, with requests or responses lost; the coordinator restarts and fails to append; applications are slow in callbacks and
forget to poll; members join, leave, crash, change subscriptions, and topics grow. No two members own a partition, what is committed
never goes back and never past what was processed, and when nothing happens any more every member has what the coordinator gives it.
"""

import heapq
import itertools
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.client.engine.engine import Engine
from ottla.client.engine.rebalances import ASSIGNED, LOST, REVOKED
from ottla.client.engine.values import (
    EARLIEST,
    ConsumerSettings,
    CoordinatorResponse,
    Endpoint,
    Fetch,
    FetchedOffset,
    ListedOffset,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetAndMetadata,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    Route,
    Send,
)
from ottla.client.fetch.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.client.fetch.requests import topic_id_bytes
from ottla.client.membership import values
from ottla.client.membership.values import ConsumerGroupHeartbeatResponse, FindCoordinator, MemberState
from ottla.groups import commands
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.scenarios import ScenarioTopics

SEEDS = range(int(os.environ.get("OTTLA_PROTOCOL_MEMBER_SEEDS", "8")))
FAULTS_MS, CALM_MS = 40_000, 60_000
SESSION_MS, POLL_INTERVAL_MS = 10_000, 8_000
NAMES = ("a", "b", "c")
REGEXES = ("", "", "[ab]", ".*")
OK = ErrorCode.NONE


def text_of(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


class Client:
    """A process: its application polls, processes one record of each partition a poll, and takes its time in callbacks."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.rng = world, world.rng
        self.number = number
        group = values.GroupSettings(
            group_id="g", is_consumer_protocol=True, max_poll_interval_ms=POLL_INTERVAL_MS, request_timeout_ms=2_000
        )
        settings = ConsumerSettings(group=group, reset=EARLIEST, auto_commit_interval_ms=500, metadata_max_age_ms=5_000)
        rng = Random(f"{world.seed} {number}")
        self.engine = Engine(settings, [], lambda fetched: iter(()), now_ms=world.now, rng=rng.random, time_of_day_ms=lambda: 0)
        self.is_alive = True
        self.is_closing = False
        self.held: set[TopicPartition] = set()
        """What it had after the last poll."""
        self.giving_up: set[TopicPartition] = set()
        """What the application gives up in a callback that has not ended: it is still working on these."""
        self.called: set[TopicPartition] = set()
        """What the last callback took away."""
        self.connection = 0
        self.arrives_ms = 0.0
        self.flying: list[Send] = []
        self.wakes = 0
        self.subscribe()
        self.poll()

    def subscribe(self) -> None:
        topics = self.rng.sample(NAMES, self.rng.randint(0, 2))
        regex = self.rng.choice(REGEXES) if topics else ".*"
        self.engine.subscribe(topics, [], regex)

    def close(self) -> None:
        self.engine.close("closed", self.world.now)
        self.is_closing = True

    @property
    def owned(self) -> set[TopicPartition]:
        return {*self.engine.subscriptions.partitions, *self.giving_up}

    def poll(self) -> None:
        if not self.is_alive:
            return
        engine, world = self.engine, self.world
        called, self.giving_up = self.called, set()
        if self.is_closing and not engine.rebalances.is_active and not engine.is_leaving:
            self.is_alive = False
            return
        if not self.is_closing:
            failure = engine.poll(world.now)
            assert failure is None, failure
        wait_ms = self.rng.randint(50, 200)
        callback = engine.next_callback(world.now)
        if callback is not None:
            world.callbacks.add(callback.kind)
            self.called = set() if callback.kind == ASSIGNED else set(callback.partitions)
            if callback.kind == REVOKED:
                self.giving_up = self.called
            wait_ms = self.rng.choice((0, 10, 500, 3_000)) if world.has_faults else 10
        elif not engine.rebalances.is_active:
            self.process()
            if world.has_faults and self.rng.random() < 0.01:
                wait_ms = POLL_INTERVAL_MS + 2_000
        held = set(engine.subscriptions.partitions)
        assert self.held - held <= called, "partitions are gone, and the application was not told before"
        self.held = held
        engine.take_events()
        engine.commits.finished.clear()
        world.check_owners()
        self.work()
        world.later(wait_ms, self.poll)

    def process(self) -> None:
        for partition, state in self.engine.subscriptions.partitions.items():
            if state.position is not None and state.is_ready:
                state.position += 1
                state.stored = OffsetAndMetadata(state.position)
                self.world.processed[partition] = max(self.world.processed.get(partition, 0), state.position)

    def work(self) -> None:
        """Send what is to be sent, and wake when the next timer ends."""
        while sends := self.engine.next_sends(self.world.now):
            for send in sends:
                self.send(send)
        wake_ms = self.engine.next_ms(self.world.now)
        if wake_ms is not None:
            self.wakes += 1
            number = self.wakes
            self.world.later(max(wake_ms - self.world.now, 1), lambda: self.work() if number == self.wakes and self.is_alive else None)

    def send(self, send: Send) -> None:
        if send.route is not Route.COORDINATOR:
            if not isinstance(send.request, Fetch):  # which find nothing
                # Metadata may come long after the heartbeat that named a topic.
                takes_ms = self.rng.randint(1, 1_500 if self.world.has_faults else 20)
                self.world.later(takes_ms, lambda: self.answered(send, self.world.answer(send.request)))
            return
        connection, world = self.connection, self.world
        self.flying.append(send)
        is_lost = world.has_faults and self.rng.random() < 0.04
        self.arrives_ms = max(self.arrives_ms, world.now + self.rng.randint(1, 300 if world.has_faults else 5))

        def arrive() -> None:
            if connection != self.connection or not self.is_alive:
                return
            if is_lost and self.rng.random() < 0.5:
                self.disconnect()
                return
            response = world.execute(self, send.request)
            if is_lost:
                self.disconnect()
            else:
                world.later(self.rng.randint(1, 100 if world.has_faults else 5), lambda: self.respond(connection, send, response))

        world.later(self.arrives_ms - world.now, arrive)

    def respond(self, connection: int, send: Send, response: Any) -> None:
        if connection == self.connection:
            self.flying.remove(send)
            self.answered(send, response)

    def answered(self, send: Send, response: Any) -> None:
        if self.is_alive:
            self.engine.on_response(send, response, self.world.now)
            self.world.check_owners()
            self.work()

    def disconnect(self) -> None:
        self.connection += 1
        self.arrives_ms = self.world.now
        lost, self.flying = self.flying, []
        for send in lost:
            self.engine.on_no_response(send, "lost", self.world.now)
        self.work()


class World:
    """One coordinator with its clients."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, Random(seed)
        self.now = 1_000_000.0
        self.has_faults = True
        self.callbacks: set[str] = set()
        self.processed: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.counts = {"a": 3, "b": 4}
        self.topics = ScenarioTopics()
        self.topics.set(self.counts)
        settings = GroupSettings(
            consumer_session_timeout_ms=SESSION_MS,
            consumer_heartbeat_interval_ms=1_000,
            consumer_assignment_interval_ms=self.rng.choice((0, 1_000)),
        )
        self.shell = CoordinatorShell(lambda: GroupCoordinator(settings, topics=self.topics))
        self.shell.restart(int(self.now))
        self.clients: list[Client] = []
        self.numbers = itertools.count()
        self.events: list[tuple[float, int, Callable[[], None]]] = []

    def later(self, delay_ms: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + delay_ms, next(self.numbers), act))

    def run(self, for_ms: float) -> None:
        end_ms = self.now + for_ms
        while self.events and self.events[0][0] <= end_ms:
            at_ms, _, act = heapq.heappop(self.events)
            self.fire_timers(at_ms)
            act()
        self.fire_timers(end_ms)

    def fire_timers(self, until_ms: float) -> None:
        while (deadline_ms := self.shell.coordinator.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now = max(self.now, deadline_ms)
            self.shell.fire_timers(int(self.now) + 1)
        self.now = max(self.now, until_ms)

    @property
    def alive(self) -> list[Client]:
        return [each for each in self.clients if each.is_alive and not each.is_closing]

    def members(self) -> Any:
        group = self.shell.stored.consumer_groups.get("g")
        return {} if group is None else group.members

    def check_owners(self) -> None:
        """A member that was removed reads until it learns of it; all others own what they own alone, until their callbacks have ended."""
        owners: dict[TopicPartition, int] = {}
        members = self.members()
        for client in self.clients:
            membership = client.engine.membership
            if client.is_alive and membership.member_id in members and not membership.has_lost_partitions:
                for partition in client.owned:
                    assert owners.setdefault(partition, client.number) == client.number, f"{partition} has two owners"

    def execute(self, client: Client, request: Any) -> Any:
        """What the coordinator does with a request that has arrived."""
        number = next(self.numbers)
        if isinstance(request, OffsetFetch):
            offsets = {each: FetchedOffset(OK, OffsetAndMetadata(self.committed.get(each, -1))) for each in request.partitions}
            return OffsetFetchResponse(OK, offsets)
        # As in Kafka, a leave that cannot be stored leaves a member behind whose session timer is cancelled.
        is_leave = isinstance(request, values.ConsumerGroupHeartbeat) and request.is_leave
        if self.has_faults and not is_leave and self.rng.random() < 0.02:
            self.shell.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS
        if isinstance(request, OffsetCommit):
            assert request.has_epoch
            return self.commit(request, number)
        effects = self.shell.run(self.heartbeat(request, number), int(self.now))
        self.shell.fail_next_append = None
        result = next(reply.result for reply in effects.replies if reply.to == number)
        assert isinstance(result, commands.ConsumerGroupHeartbeatResult)
        assignment = None if result.assignment is None else {text_of(key): tuple(each) for key, each in result.assignment.items()}
        return ConsumerGroupHeartbeatResponse(
            error=result.error,
            message=result.message,
            member_epoch=result.member_epoch,
            heartbeat_interval_ms=result.heartbeat_interval_ms,
            assignment=assignment,
        )

    def heartbeat(self, request: values.ConsumerGroupHeartbeat, number: int) -> commands.ConsumerGroupHeartbeat:
        owned = None if request.owned is None else {topic_id_bytes(key): set(each) for key, each in request.owned.items()}
        return commands.ConsumerGroupHeartbeat(
            reply_to=number,
            group_id="g",
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=None if request.topics is None else frozenset(request.topics),
            regex=request.regex,
            assignor=request.assignor,
            owned=owned,
            client_id="c",
            client_host="/",
        )

    def commit(self, request: OffsetCommit, number: int) -> dict[TopicPartition, ErrorCode]:
        offsets = tuple(
            commands.OffsetToCommit(topic=topic, partition=partition, offset=offset.offset, leader_epoch=-1, metadata=None)
            for (topic, partition), offset in request.offsets.items()
        )
        command = commands.OffsetCommit(
            reply_to=number,
            group_id="g",
            generation=request.generation,
            member_id=request.member_id,
            instance_id=None,
            retention_ms=-1,
            knows_group_errors=True,
            offsets=offsets,
        )
        effects = self.shell.run(command, int(self.now))
        self.shell.fail_next_append = None
        result = next(reply.result for reply in effects.replies if reply.to == number)
        assert isinstance(result, commands.CommitResult)
        errors = dict(zip(request.offsets, result.errors, strict=True))
        for partition, error in errors.items():
            if error is OK:
                offset = request.offsets[partition].offset
                assert self.committed.get(partition, 0) <= offset <= self.processed[partition], f"{partition} goes back or past"
                self.committed[partition] = offset
        return errors

    def answer(self, request: Any) -> Any:
        """What any broker answers."""
        match request:
            case FindCoordinator():
                return CoordinatorResponse(OK, 0, Endpoint("b", 1))
            case Metadata():
                known = {name: self.counts[name] for name in NAMES if name in self.counts}
                ids = {text_of(self.topics.topics[name].topic_id) for name in known} & set(request.topic_ids)
                names = known if request.topics is None else [name for name in NAMES if name in request.topics]
                names = [*names, *(name for name in known if text_of(self.topics.topics[name].topic_id) in ids)]
                return MetadataResponse({0: Endpoint("b", 1)}, tuple(self.metadata(name) for name in names))
            case ListOffsets():
                return {each: ListedOffset(OK, 0, 0) for each in request.timestamps}
        raise AssertionError(request)

    def metadata(self, name: str) -> TopicMetadata:
        if name not in self.counts:
            return TopicMetadata(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = {number: PartitionMetadata(OK, LeaderAndEpoch(0, 0)) for number in range(self.counts[name])}
        return TopicMetadata(name, OK, text_of(self.topics.topics[name].topic_id), partitions=partitions)

    def step(self) -> None:
        rng, alive = self.rng, self.alive
        match rng.choice(("join", "join", "close", "crash", "subscribe", "topics", "restart", "disconnect", "disconnect")):
            case "join" if len(alive) < 5:
                self.clients.append(Client(self, len(self.clients)))
            case "close" if alive:
                rng.choice(alive).close()
            case "crash" if alive:
                rng.choice(alive).is_alive = False
            case "subscribe" if alive:
                rng.choice(alive).subscribe()
            case "topics":
                name = rng.choice(NAMES)
                self.counts[name] = self.counts.get(name, 0) + 1
                self.topics.set(dict(self.counts))
            case "restart":
                self.shell.restart(int(self.now))
            case "disconnect" if alive:
                rng.choice(alive).disconnect()
        if self.has_faults:
            self.later(rng.randint(100, 3_000), self.step)

    def simulate(self) -> None:
        self.step()
        self.run(FAULTS_MS)
        self.has_faults = False
        self.run(CALM_MS)


@pytest.mark.parametrize("seed", SEEDS)
def test_members_keep_the_rules_and_come_to_their_targets(seed: int) -> None:
    world = World(seed)
    world.simulate()
    group = world.shell.stored.consumer_groups.get("g")
    assert {each.engine.membership.member_id for each in world.alive} == set(world.members())
    for client in world.alive:
        assert group is not None
        target = group.target(client.engine.membership.member_id)
        names = {topic.topic_id: name for name, topic in world.topics.topics.items()}
        assert client.owned == {TopicPartition(names[key], number) for key, numbers in target.items() for number in numbers}
        assert client.engine.membership.generation == group.assignment_epoch
        assert client.engine.membership.state is MemberState.STABLE


def test_the_runs_have_what_they_are_for() -> None:
    worlds = [World(seed) for seed in range(4)]
    for world in worlds:
        world.simulate()
    assert {REVOKED, LOST} <= set().union(*(world.callbacks for world in worlds))
    assert all(world.committed for world in worlds)
    assert worlds[0].committed == (again := World(0), again.simulate())[0].committed, "a seed runs twice alike"
