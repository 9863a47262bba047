"""A member of the classic protocol for the simulation of consumer groups: in a classic group it may lead, in a consumer group it is led."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

from ottla.groups.assignors import Subscriber, find_assignor
from ottla.groups.commands import Heartbeat, HeartbeatResult, JoinGroup, JoinMember, JoinResult, Request, Result, SyncGroup, SyncResult
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscription
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription
from trials.scenarios.commands import topic_id

Partition = tuple[bytes, int]
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class Coordinator(Protocol):
    """What a client needs of the world. A response None: the connection ended before it."""

    def send(self, make: Callable[[int], Request], on_response: Callable[[Result | None], None]) -> None: ...

    @property
    def partition_counts(self) -> Mapping[str, int]: ...


class ClassicClient:
    """One process. A member that is eager owns nothing while it joins; a cooperative one keeps what it has and gives up what it lost."""

    def __init__(self, number: int, rng: Random, instance_id: str | None, assignor: str, names: tuple[str, ...]) -> None:
        self.number = number
        self.member_id = ""
        self.instance_id = instance_id
        self.epoch = -1
        self.owned: set[Partition] = set()
        self.topics = frozenset(rng.sample(names, rng.randint(1, len(names))))
        self.is_alive = True
        self.is_waiting = False
        self.must_join = True
        self.is_stale = False
        """Whether it owns what the coordinator does not know of, until it has joined again."""
        self._assignor = assignor

    def act(self, world: Coordinator) -> None:
        """Send what is due: JoinGroup or a heartbeat; nothing while an answer is awaited."""
        if self.is_waiting:
            return
        if not self.must_join:
            self._send(world, self._heartbeat, self._on_heartbeat)
            return
        if self._assignor == EAGER:
            self.owned = set()
        self._send(world, self._join, lambda result: self._on_join(world, result))

    def lose_all(self) -> None:
        """It is no member any more."""
        self.member_id, self.epoch, self.owned, self.must_join = "", -1, set(), True

    def end(self) -> None:
        """The process is gone; what it is told from now on reaches nobody."""
        self.is_alive, self.owned = False, set()

    def _send(self, world: Coordinator, make: Callable[[int], Request], on_response: Callable[[Result], None]) -> None:
        def receive(result: Result | None) -> None:
            self.is_waiting = False
            if self.is_alive and result is None:
                self._on_error(ErrorCode.NOT_COORDINATOR)
            elif self.is_alive and result is not None:
                on_response(result)

        self.is_waiting = True
        world.send(make, receive)

    def _join(self, reply_to: int) -> JoinGroup:
        owned: dict[str, list[int]] = {}
        for topic, number in sorted(self.owned):
            owned.setdefault(_name(topic), []).append(number)
        metadata = encode_subscription(sorted(self.topics), None if self._assignor == EAGER else owned)
        return JoinGroup(
            reply_to=reply_to,
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id="k",
            client_host="/",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=5_000,
            protocol_type="consumer",
            protocols=((self._assignor, metadata),),
            reason=None,
            require_known_member_id=True,
            supports_skip_assignment=True,
            new_member_id=f"k{self.number}-{reply_to}",
            new_uuid=f"k{self.number}-{reply_to}",
        )

    def _on_join(self, world: Coordinator, result: Result) -> None:
        assert isinstance(result, JoinResult)
        match result.error:
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = result.member_id
            case ErrorCode.NONE:
                self.member_id, self.epoch = result.member_id, result.generation
                assignments = self._assign(world, result.members) if result.leader == self.member_id and not result.skip_assignment else ()
                self._send(world, lambda reply_to: self._sync(reply_to, assignments), self._on_sync)
            case _:
                self._on_error(result.error)

    def _assign(self, world: Coordinator, members: Sequence[JoinMember]) -> tuple[tuple[str, bytes], ...]:
        subscribers = []
        for member in members:
            subscription = parse_subscription(member.metadata)
            subscribers.append(
                Subscriber(
                    member_id=member.member_id,
                    topics=frozenset(subscription.topics),
                    instance_id=member.instance_id,
                    owned=subscription.owned,
                    generation=subscription.generation,
                )
            )
        found = find_assignor(self._assignor).assign(subscribers, world.partition_counts)
        return tuple((member_id, encode_assignment(assigned)) for member_id, assigned in found.items())

    def _sync(self, reply_to: int, assignments: tuple[tuple[str, bytes], ...]) -> SyncGroup:
        return SyncGroup(
            reply_to=reply_to,
            group_id="g",
            generation=self.epoch,
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._assignor,
            assignments=assignments,
        )

    def _on_sync(self, result: Result) -> None:
        assert isinstance(result, SyncResult)
        if result.error is not ErrorCode.NONE:
            self._on_error(result.error)
            return
        assigned = {(topic_id(topic), number) for topic, numbers in parse_assignment(result.assignment).items() for number in numbers}
        self.must_join = bool(self.owned - assigned)
        self.owned, self.is_stale = assigned, False

    def _heartbeat(self, reply_to: int) -> Heartbeat:
        return Heartbeat(reply_to=reply_to, group_id="g", generation=self.epoch, member_id=self.member_id, instance_id=self.instance_id)

    def _on_heartbeat(self, result: Result) -> None:
        assert isinstance(result, HeartbeatResult)
        if result.error is not ErrorCode.NONE:
            self._on_error(result.error)

    def _on_error(self, error: ErrorCode) -> None:
        self.must_join = True
        match error:
            case ErrorCode.ILLEGAL_GENERATION:
                self.epoch, self.owned = -1, set()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.lose_all()
            case _:
                assert error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR), error


def _name(topic: bytes) -> str:
    return topic.rstrip(b"\0").decode()
