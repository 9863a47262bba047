"""Consumer groups in virtual time: seeded members join, leave, die and change their subscriptions, topics change, the broker restarts.

In half of the seeds there are members of the classic protocol, too, so that groups change their type. After every step: no partition has
two owners among what members were told, epochs never go back, every increase has its trigger, and what the records replay to is the
coordinator's state. When nothing happens any more, every member comes to its target.
"""

import os
from collections.abc import Callable, Mapping
from random import Random

import pytest

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.commands import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    GroupEffects,
    LeaveGroup,
    LeavingMember,
    Request,
    Result,
)
from ottla.groups.consumer.group_state import EPOCH
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord
from ottla.groups.settings import GroupSettings, MigrationPolicy
from ottla.protocol.errors import ErrorCode
from tests.simulation.classic_client import COOPERATIVE, EAGER, ClassicClient, Partition
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.scenarios import ScenarioTopics

SEEDS = range(int(os.environ.get("OTTLA_CONSUMER_GROUP_SEEDS", "60")))
STEPS = 60
NAMES = ("a", "b", "c")


class Client:
    """A member as a client has it: what it owns it reads until it has given it up."""

    def __init__(self, number: int, rng: Random, instance_id: str | None) -> None:
        self.member_id = f"m{number}"
        self.rng = rng
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.told: set[Partition] = set()
        self.said: set[Partition] | None = None
        self.topics = frozenset(rng.sample(NAMES, rng.randint(1, 3)))
        self.regex: str | None = "[ab]" if rng.random() < 0.2 else None
        self.sends_all = True

    def heartbeat(self, reply_to: int, *, epoch: int | None = None) -> ConsumerGroupHeartbeat:
        epoch = self.epoch if epoch is None else epoch
        is_full = self.sends_all or epoch == 0
        owned: dict[bytes, set[int]] = {}
        for topic_id, number in self.owned:
            owned.setdefault(topic_id, set()).add(number)
        return ConsumerGroupHeartbeat(
            reply_to=reply_to,
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rack_id=None,
            rebalance_timeout_ms=5_000 if is_full else -1,
            topics=self.topics if is_full else None,
            regex=self.regex if is_full else None,
            assignor=None,
            owned={} if epoch == 0 else owned if is_full or self.said != self.owned else None,
            client_id="c",
            client_host="/",
        )

    def act(self, world: "World") -> None:
        world.beat(self)

    def lose_all(self) -> None:
        self.epoch, self.owned, self.told, self.said, self.sends_all = 0, set(), set(), None, True


AnyClient = Client | ClassicClient


class World:
    """One coordinator with its clients."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.topics = ScenarioTopics()
        self.topics.set({"a": 3, "b": 4})
        # As before there were classic members, so that a seed is still the same run; the others have them.
        mixed = Random(seed)
        self.assignor = mixed.choice((EAGER, COOPERATIVE)) if seed % 2 else None
        policy = mixed.choice([*MigrationPolicy, MigrationPolicy.BIDIRECTIONAL]) if seed % 2 else MigrationPolicy.BIDIRECTIONAL
        settings = GroupSettings(
            consumer_session_timeout_ms=10_000,
            consumer_assignment_interval_ms=self.rng.choice((0, 1_000)),
            consumer_migration_policy=policy,
        )
        self.shell = CoordinatorShell(lambda: GroupCoordinator(settings, topics=self.topics))
        self.now_ms = 1_000_000
        self.shell.restart(self.now_ms)
        self.clients: list[AnyClient] = []
        self.waiting: dict[int, Callable[[Result | None], None]] = {}
        self.types: list[str] = []
        self.made = self.requests = self.fast_answers = 0
        self.epoch = 0

    @property
    def partition_counts(self) -> Mapping[str, int]:
        return {name: len(topic.leaders) for name, topic in self.topics.topics.items()}

    def send(self, make: Callable[[int], Request], on_response: Callable[[Result | None], None]) -> None:
        self.requests += 1
        self.waiting[self.requests] = on_response
        self.check(self.shell.run(make(self.requests), self.now_ms))

    def run(self, client: Client, *, epoch: int | None = None) -> ConsumerGroupHeartbeatResult:
        results: list[Result | None] = []
        asked, stored = client.heartbeat(0, epoch=epoch), len(self.shell.log)
        interval_ms = None
        if (asked.topics, asked.owned) == (None, None) and self.shell.fail_next_append is None:
            interval_ms = self.shell.coordinator.fast_consumer_heartbeat(
                "g", asked.member_id, asked.member_epoch, asked.instance_id, asked.client_id, asked.client_host, timer_ms=self.now_ms
            )
        self.send(lambda reply_to: client.heartbeat(reply_to, epoch=epoch), results.append)
        (result,) = results
        assert isinstance(result, ConsumerGroupHeartbeatResult)
        if interval_ms is not None:
            # What is answered without a command is what the command would have been answered.
            self.fast_answers += 1
            kept = ConsumerGroupHeartbeatResult(
                error=ErrorCode.NONE, member_id=asked.member_id, member_epoch=asked.member_epoch, heartbeat_interval_ms=interval_ms
            )
            assert (result, len(self.shell.log)) == (kept, stored)
        return result

    def beat(self, client: Client) -> None:
        # It gives up what it was told to before it says so.
        client.owned &= client.told
        result = self.run(client)
        client.sends_all, client.said = False, set(client.owned)
        if result.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            client.lose_all()
            return
        if result.error is ErrorCode.FENCED_INSTANCE_ID:
            self.clients.remove(client)
            return
        assert result.error in (ErrorCode.NONE, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.COORDINATOR_NOT_AVAILABLE), result
        if result.error is not ErrorCode.NONE:
            client.sends_all, client.said = True, None
            return
        client.epoch = result.member_epoch
        if result.assignment is not None:
            client.told = {(topic_id, number) for topic_id, numbers in result.assignment.items() for number in numbers}
            client.owned |= client.told
        self.check_owners()

    def check(self, effects: GroupEffects) -> None:
        epochs = [
            record.value.epoch
            for record in effects.records
            if isinstance(record, ConsumerGroupRecord) and record.record_type == EPOCH and record.value
        ]
        generations = [record.value for record in effects.records if isinstance(record, GroupMetadataRecord)]
        value = generations[-1] if generations else None
        bumped = {event.generation for event in effects.events if event.kind == "epoch_bumped" and event.trigger}
        if generations and value is None and epochs[:1] and epochs[0] not in bumped:
            # A classic group with members became a consumer group: the first epoch is its generation.
            generation = epochs.pop(0)
            assert generation >= self.epoch
            for client in self.clients:
                # As in Kafka: it was a consumer group before, and takes the last target for what members have that have not joined since.
                if isinstance(client, ClassicClient) and client.epoch != generation and self.types[-2:] == ["consumer", "classic"]:
                    client.is_stale = True
        elif value is not None and value.members:
            assert value.generation >= self.epoch
            self.epoch = value.generation
        elif generations:
            # A group without members became one of the other type, which starts anew.
            self.epoch = 0
        assert set(epochs) == bumped
        assert all(epoch > self.epoch for epoch in epochs)
        if value is None:
            # With a downgrade the increase is not stored: the classic group has the epoch of before.
            self.epoch = max(epochs, default=self.epoch)
        assert self.shell.coordinator.state.replayed == self.shell.stored
        group = self.shell.coordinator.state.groups.get("g")
        if group is not None and self.types[-1:] != [group.group_type]:
            self.types.append(group.group_type)
        for reply in effects.replies:
            self.waiting.pop(reply.to)(reply.result)
        self.check_owners()

    def check_owners(self) -> None:
        owners: dict[Partition, AnyClient] = {}
        for client in self.clients:
            for partition in set() if isinstance(client, ClassicClient) and client.is_stale else client.owned:
                assert owners.setdefault(partition, client) is client, f"{partition} has two owners"

    def check_stable(self) -> None:
        group = self.shell.coordinator.snapshot().groups[0]
        policy = self.shell.coordinator.state.settings.consumer_migration_policy
        if not any(isinstance(client, Client) for client in self.clients) and not policy.allows_downgrade:
            # As in Kafka: members of the classic protocol alone do not notice a new epoch.
            assert group.state in ("Stable", "Assigning")
            return
        assert group.state == "Stable", group
        durable = self.shell.stored.consumer_groups.get("g")
        if durable is None:
            # A classic group: its leader has assigned everything. Members of the consumer protocol have been turned away.
            members = [client for client in self.clients if isinstance(client, ClassicClient)]
            assert len(members) == len(self.clients) or not policy.allows_upgrade
            subscribed = {topic for client in members for topic in client.topics if topic in self.topics.topics}
            owned = {partition for client in members for partition in client.owned}
            assert len(owned) == sum(self.partition_counts[topic] for topic in subscribed), group
            assert {client.epoch for client in members} == {group.generation}
            return
        for client in self.clients:
            target = durable.target(client.member_id)
            assert client.owned == {(topic_id, number) for topic_id, numbers in target.items() for number in numbers}
            assert client.epoch == durable.assignment_epoch

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (deadline_ms := self.shell.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            effects = self.shell.fire_timers(self.now_ms)
            assert effects is not None
            self.stop_reading()
            self.check(effects)
        self.now_ms = end_ms

    def stop_reading(self) -> None:
        """Who is fenced stops reading before its session is over, and who was too late for a generation before its rebalance timeout."""
        group = self.shell.coordinator.state.groups.get("g")
        snapshot = next((each for each in self.shell.coordinator.snapshot().groups if each.group_id == "g"), None)
        members = {member.member_id for member in snapshot.members} if snapshot is not None else set()
        for client in self.clients:
            is_late = isinstance(client, ClassicClient) and isinstance(group, ClassicGroup) and client.epoch < group.generation
            if client.member_id not in members or is_late:
                client.owned = set()
            if client.member_id not in members and isinstance(client, Client):
                client.told, client.said = set(), None

    def join(self, instance_id: str | None, *, is_classic: bool) -> None:
        self.made += 1
        if is_classic:
            assert self.assignor is not None
            self.clients.append(ClassicClient(self.made, self.rng, instance_id, self.assignor, NAMES))
        else:
            self.clients.append(Client(self.made, self.rng, instance_id))
        self.clients[-1].act(self)

    def leave(self, client: AnyClient) -> None:
        self.clients.remove(client)
        if isinstance(client, Client):
            self.run(client, epoch=-1)
            return
        client.end()
        if client.member_id:
            leaving = LeavingMember(member_id=client.member_id, instance_id=client.instance_id, reason=None)
            self.send(lambda reply_to: LeaveGroup(reply_to=reply_to, group_id="g", members=(leaving,)), lambda _: None)

    def migrate(self, client: AnyClient) -> None:
        """The process ends, and one of the other protocol takes its place; a static one does not leave."""
        if client.instance_id is None:
            self.leave(client)
        else:
            self.clients.remove(client)
            if isinstance(client, ClassicClient):
                client.end()
        self.join(client.instance_id, is_classic=isinstance(client, Client))

    def step(self) -> None:
        rng = self.rng
        steps = ["beat", "beat", "beat", "beat", "join", "leave", "die", "subscribe", "topics", "wait", "restart", "fail", "static"]
        if self.assignor is not None:
            steps += ["beat", "beat", "beat", "beat", "migrate", "join classic"]
        what = rng.choice(steps)
        match what:
            case "join" | "join classic" if len(self.clients) < 5:
                instance_id = f"i{self.made + 1}" if rng.random() < 0.3 else None
                self.join(instance_id, is_classic=what == "join classic")
            case "leave" if self.clients:
                self.leave(self.clients[rng.randrange(len(self.clients))])
            case "migrate" if self.clients:
                self.migrate(rng.choice(self.clients))
            case "static":
                static = [client for client in self.clients if isinstance(client, Client) and client.instance_id and client.epoch > 0]
                if static:
                    away = rng.choice(static)
                    self.run(away, epoch=-2)
                    self.made += 1
                    away.member_id = f"m{self.made}"
                    away.lose_all()
            case "die" if self.clients:
                dead = self.clients.pop(rng.randrange(len(self.clients)))
                if isinstance(dead, ClassicClient):
                    dead.end()
            case "subscribe" if self.clients:
                client = rng.choice(self.clients)
                client.topics = frozenset(rng.sample(NAMES, rng.randint(1, 3)))
                if isinstance(client, Client):
                    client.sends_all = True
                else:
                    client.must_join = True
            case "topics":
                self.topics.set({name: rng.randint(1, 5) for name in NAMES if rng.random() < 0.8})
            case "wait":
                self.wait(rng.choice((100, 2_000, 6_000)))
            case "restart":
                waiting, self.waiting = self.waiting, {}
                self.check(self.shell.restart(self.now_ms))
                for on_response in waiting.values():
                    on_response(None)
            case "fail" if self.clients:
                self.shell.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS
                rng.choice(self.clients).act(self)
                self.shell.fail_next_append = None
            case _ if self.clients:
                rng.choice(self.clients).act(self)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_keep_their_rules(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    for round_ in range(40):
        world.wait(1_000)
        for client in [*world.clients]:
            if isinstance(client, ClassicClient) and round_ in (0, 15):
                client.must_join = True  # the leader notices topics that changed, also while it joined
            client.act(world)
    if world.clients:
        world.check_stable()


def test_groups_change_their_type_in_many_ways() -> None:
    """What the seeds are worth."""
    changes, fast_answers = set(), 0
    for seed in range(1, 40, 2):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        changes |= set(zip(world.types, world.types[1:], strict=False))
        fast_answers += world.fast_answers
    assert changes == {("classic", "consumer"), ("consumer", "classic")}
    assert fast_answers >= 10
