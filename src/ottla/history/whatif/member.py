"""A modelled member: one consumer process that acts by the rules of Kafka's clients and knows its group only by the coordinator's replies.

The rules are the Java client's: heartbeats in the background; joining and revoking in `poll`; LeaveGroup when the time between two polls
exceeds max.poll.interval.ms; static members send no LeaveGroup, neither then nor on close. librdkafka and kafka-python do the same.

Its environment is the replay's: the time, the coordinator, the assignor, and the sums that the stops of its partitions are added to.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol

from ottla.client.membership.membership import POLL_EXPIRED
from ottla.client.membership.values import HEARTBEAT, JOIN, SYNC, Reaction, reaction
from ottla.groups.assignors import Assignor, Subscriber
from ottla.groups.commands import (
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeavingMember,
    Request,
    SyncGroup,
    SyncResult,
)
from ottla.history.whatif.behaviour import Action, ActionKind, Process
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, encode_subscription, parse_assignment

RETRY_MS: Final = 100
"""Clients' retry.backoff.ms."""
ADMIN: Final = "member was removed by an admin"
CLOSED: Final = "the consumer is being closed"
FOLLOW_UP: Final = "need to revoke partitions and re-join"
RESUBSCRIBED: Final = "subscription has changed"


class Phase(StrEnum):
    """Where a process stands. APART: it runs and has left or lost its membership; it joins at its next poll."""

    GONE = "gone"
    APART = "apart"
    JOINING = "joining"
    SYNCING = "syncing"
    OWNING = "owning"


def stop_times(process: Process) -> list[int]:
    """When it stops sending heartbeats, in order."""
    times = []
    for action in process.actions:
        if action.kind in (ActionKind.SILENCE, ActionKind.CRASH, ActionKind.CLOSE):
            times.append(action.at_ms)
        elif action.kind is ActionKind.POLL_GAP and (action.until_ms is None or action.length_ms > process.rebalance_timeout_ms):
            times.append(action.at_ms + process.rebalance_timeout_ms)
    return sorted(times)


MakeRequest = Callable[[int], Request]


def join_request(
    group_id: str, process: Process, member_id: str, *, assignor: str, metadata: bytes, reason: str | None, new_id: str
) -> MakeRequest:
    """JoinGroup as clients send it since Kafka 2.2: a new dynamic member gets its id first (KIP-394)."""
    return lambda reply_to: JoinGroup(
        reply_to=reply_to,
        group_id=group_id,
        member_id=member_id,
        instance_id=process.instance_id,
        client_id=process.name,
        client_host=process.client_host,
        session_timeout_ms=process.session_timeout_ms,
        rebalance_timeout_ms=process.rebalance_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=((assignor, metadata),),
        reason=reason,
        require_known_member_id=True,
        supports_skip_assignment=True,
        new_member_id=new_id,
    )


def sync_request(
    group_id: str, process: Process, member_id: str, generation: int, *, assignor: str, assignments: tuple[tuple[str, bytes], ...]
) -> MakeRequest:
    """SyncGroup; `assignments` are the leader's."""
    return lambda reply_to: SyncGroup(
        reply_to=reply_to,
        group_id=group_id,
        generation=generation,
        member_id=member_id,
        instance_id=process.instance_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=assignments,
    )


def heartbeat_request(group_id: str, process: Process, member_id: str, generation: int) -> MakeRequest:
    """Heartbeat."""
    return lambda reply_to: Heartbeat(
        reply_to=reply_to, group_id=group_id, generation=generation, member_id=member_id, instance_id=process.instance_id
    )


def leave_request(group_id: str, process: Process, member_id: str, reason: str) -> MakeRequest:
    """LeaveGroup of one member."""
    leaving = LeavingMember(member_id=member_id, instance_id=process.instance_id, reason=reason)
    return lambda reply_to: LeaveGroup(reply_to=reply_to, group_id=group_id, members=(leaving,))


Partitions = Mapping[str, Sequence[int]]


def partitions_of(owned: Mapping[str, Sequence[int]]) -> frozenset[TopicPartition]:
    """The partitions of an assignment by topic."""
    return frozenset(TopicPartition(topic, number) for topic, numbers in owned.items() for number in numbers)


class PartitionStops:
    """The running sums; `advance` to the present before each change."""

    def __init__(self) -> None:
        self.rebalancing_ms = 0
        """Partitions that no member owned."""
        self.waiting_ms = 0
        """Partitions whose owner did not read."""
        self._now_ms = 0
        self._known: set[TopicPartition] = set()
        self._readers: Counter[TopicPartition] = Counter()
        self._absent: Counter[TopicPartition] = Counter()
        self._read_count = self._absent_count = 0

    def start(self, now_ms: int) -> None:
        """Count from now on."""
        self._now_ms = now_ms
        self.rebalancing_ms = self.waiting_ms = 0

    def advance(self, now_ms: int, *, is_running: bool) -> None:
        """Add the time since the last call; without running members (`is_running`) nothing is expected to be read."""
        elapsed_ms, self._now_ms = now_ms - self._now_ms, now_ms
        if is_running:
            self.waiting_ms += elapsed_ms * self._absent_count
            self.rebalancing_ms += elapsed_ms * (len(self._known) - self._read_count - self._absent_count)

    def replace(self, before: frozenset[TopicPartition], after: frozenset[TopicPartition], *, read_before: bool, read_after: bool) -> None:
        """A member owned `before` and now owns `after`; whether it read them, and reads them."""
        if read_before == read_after:
            before, after = before - after, after - before
        for partition in before:
            self._change(partition, -1, reads=read_before)
        for partition in after:
            self._known.add(partition)
            self._change(partition, 1, reads=read_after)

    def _change(self, partition: TopicPartition, by: int, *, reads: bool) -> None:
        was_read, was_absent = self._state(partition)
        (self._readers if reads else self._absent)[partition] += by
        is_read, is_absent = self._state(partition)
        self._read_count += is_read - was_read
        self._absent_count += is_absent - was_absent

    def _state(self, partition: TopicPartition) -> tuple[bool, bool]:
        is_read = self._readers[partition] > 0
        return is_read, not is_read and self._absent[partition] > 0


class Environment(Protocol):
    """The environment of the members of one replay."""

    now_ms: int
    group_id: str
    assignor: Assignor
    stops: PartitionStops

    def send(self, request: MakeRequest, receive: Callable[[Any], None]) -> None:
        """Send a request; `receive` gets its result."""

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_ms`."""

    def new_member_id(self, process: str) -> str:
        """An id for a process that no member has had."""

    def assign(self, result: JoinResult) -> tuple[tuple[str, bytes], ...]:
        """What the leader of a generation assigns, by member id."""

    def sync_delay_ms(self) -> int:
        """How long the leader takes for it."""


E = ErrorCode


class ModelMember:
    """One process. `origin` is the index of its last action: what it triggers is counted as a consequence of that."""

    def __init__(self, process: Process, environment: Environment) -> None:
        self.process = process
        self.phase = Phase.GONE
        self.member_id = ""
        self.generation = -1
        self.owned: Mapping[str, tuple[int, ...]] = {}
        self.topics = process.topics
        self.origin = -1
        self._environment = environment
        self._attempt = 0
        """The number of its present request or wait; results and waits of earlier ones are ignored."""
        self._claim: tuple[Mapping[str, tuple[int, ...]], int] = ({}, -1)
        """Its last assignment and generation, as sticky assignors send it."""
        self._metadata_version = 0
        self._silent_until_ms: int | None = 0
        self._polls_again_ms: int | None = 0
        """The end of its silence, and of its poll gap; None: never."""
        self._last_heartbeat_ms: int | None = None
        """When it sent its last heartbeat; None while it goes on sending them."""
        self._left_behind: dict[str, int] = {}
        """Member ids of earlier runs of the process, each with its last heartbeat."""
        self._held: frozenset[TopicPartition] = frozenset()
        self._held_reads = True
        self._stop_times = stop_times(process)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether it notices a change of the group within a heartbeat interval; a silent member does when it is awake."""
        return self.phase in (Phase.OWNING, Phase.SYNCING) and not self._is_silent

    def last_heartbeat_ms(self, member_id: str, horizon_ms: int) -> int:
        """The last heartbeat before it stops sending them: past if it has stopped, otherwise when it will (`horizon_ms`: it will not)."""
        if member_id in self._left_behind:
            return self._left_behind[member_id]
        if self._last_heartbeat_ms is not None:
            return self._last_heartbeat_ms
        at = bisect_left(self._stop_times, self._environment.now_ms)
        return self._stop_times[at] if at < len(self._stop_times) else horizon_ms

    def subscriber(self, member_id: str) -> Subscriber:
        """The member as the leader's assignor sees it, with the id that the coordinator has given it."""
        owned, generation = self._claim
        instance_id = self.process.instance_id
        return Subscriber(member_id=member_id, topics=self.topics, instance_id=instance_id, owned=owned, generation=generation)

    # What the group does to it

    def notice(self) -> None:
        """Send a heartbeat, as it does every heartbeat.interval.ms: so it notices a rebalance, or that it was removed."""
        if self.phase is Phase.OWNING and self._is_silent:
            self._when_awake(self.notice)
        elif self.phase is Phase.OWNING:
            request = heartbeat_request(self._environment.group_id, self.process, self.member_id, self.generation)
            self._call(request, self._on_heartbeat)

    def removed(self, member_id: str) -> None:
        """The coordinator has removed this member id: its partitions have no owner until they are assigned."""
        if member_id == self.member_id:
            self._hold(frozenset(), reads=True)

    def rejoin(self, reason: str | None = None) -> None:
        """Join at the next poll, with its member id."""
        wait_ms = 0 if self._polls_again_ms is None else self._polls_again_ms - self._environment.now_ms
        if wait_ms > 0:
            self._after(wait_ms, lambda: self._join(reason))
        elif self._polls_again_ms is not None:
            self._join(reason)

    # What it does by itself

    def act(self, origin: int, action: Action) -> None:
        """Do one action of its process; a process that is not running can only start."""
        if self.phase is Phase.GONE and action.kind is not ActionKind.START:
            return
        self.origin = origin
        kinds: Mapping[ActionKind, Callable[[Action], None]] = {
            ActionKind.START: self._start,
            ActionKind.CLOSE: self._close,
            ActionKind.CRASH: self._end,
            ActionKind.SILENCE: self._fall_silent,
            ActionKind.POLL_GAP: self._stop_polling,
            ActionKind.RESUBSCRIBE: self._resubscribe,
            ActionKind.REMOVAL: lambda _: self._leave(ADMIN),
        }
        kinds[action.kind](action)

    def _start(self, _action: Action) -> None:
        if self.member_id and self._last_heartbeat_ms is not None:
            self._left_behind[self.member_id] = self._last_heartbeat_ms
        self._silent_until_ms = self._polls_again_ms = 0
        self._last_heartbeat_ms = None
        self._lose_membership()
        self._join()

    def _close(self, action: Action) -> None:
        self.phase = Phase.GONE
        if self.process.instance_id is None:
            self._leave(CLOSED)
            self._lose_membership()
        self._end(action)

    def _end(self, _action: Action | None = None) -> None:
        self._attempt += 1
        self._hold(self._held, reads=False)
        self._last_heartbeat_ms = self._environment.now_ms
        self.phase = Phase.GONE

    def _fall_silent(self, action: Action) -> None:
        self._silent_until_ms = action.until_ms
        self._last_heartbeat_ms = self._environment.now_ms
        self._hold(self._held, reads=False)
        if action.until_ms is not None:
            self._environment.later(action.length_ms, self._wake)

    def _wake(self) -> None:
        if self.phase is not Phase.GONE and not self._is_silent:
            self._last_heartbeat_ms = None
            self._hold(self._held, reads=True)
            self.notice()

    def _stop_polling(self, action: Action) -> None:
        self._polls_again_ms = action.until_ms
        if action.until_ms is None:
            self._hold(self._held, reads=False)
        if action.until_ms is None or action.length_ms > self.process.rebalance_timeout_ms:
            self._environment.later(self.process.rebalance_timeout_ms, lambda: self._exceed_poll_interval(action))

    def _exceed_poll_interval(self, action: Action) -> None:
        if self.phase is Phase.GONE or self._polls_again_ms != action.until_ms:
            return
        self.phase = Phase.APART
        if self.process.instance_id is None:
            self._leave(POLL_EXPIRED)
        else:
            self._last_heartbeat_ms = self._environment.now_ms
        held = self._held
        self._lose_membership()
        if self.process.instance_id is not None:
            self._hold(held, reads=False)
        if action.until_ms is not None:
            self._after(action.until_ms - self._environment.now_ms, self._come_back)

    def _come_back(self) -> None:
        self._last_heartbeat_ms = None
        self._hold(frozenset(), reads=True)
        self._join()

    def _resubscribe(self, action: Action) -> None:
        if self.phase in (Phase.JOINING, Phase.SYNCING):
            self._environment.later(RETRY_MS, lambda: self._resubscribe(action))
            return
        self._metadata_version += 1
        self.topics = action.topics or self.topics
        if self.phase is Phase.OWNING:
            self.rejoin(RESUBSCRIBED)

    # Requests and their results

    def _join(self, reason: str | None = None) -> None:
        if self._is_silent:
            self._when_awake(lambda: self._join(reason))
            return
        assignor = self._environment.assignor
        if not assignor.is_cooperative:
            self._hold(frozenset(), reads=True)
            self.owned = {}
        self.phase = Phase.JOINING
        version = self._metadata_version.to_bytes(4, "big") if self._metadata_version else b""
        metadata = encode_subscription(
            self.topics, owned=self.owned, generation=self._claim[1] if self.owned else -1, user_data=version or None
        )
        request = join_request(
            self._environment.group_id,
            self.process,
            self.member_id,
            assignor=assignor.name,
            metadata=metadata,
            reason=reason,
            new_id=self._environment.new_member_id(self.process.name),
        )
        self._call(request, lambda result: self._on_join(result, reason))

    def _on_join(self, result: JoinResult, reason: str | None) -> None:
        if result.error is not E.NONE and reaction(JOIN, result.error) is Reaction.TAKE_MEMBER_ID:
            self.member_id = result.member_id
            self._join(reason)
        elif result.error is not E.NONE:
            self._recover(reaction(JOIN, result.error))
        else:
            self.member_id, self.generation, self.phase = result.member_id, result.generation, Phase.SYNCING
            if result.leader == self.member_id and not result.skip_assignment:
                assignments = self._environment.assign(result)
                self._after(self._environment.sync_delay_ms(), lambda: self._sync(assignments))
            else:
                self._sync(())

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        group_id, name = self._environment.group_id, self._environment.assignor.name
        request = sync_request(group_id, self.process, self.member_id, self.generation, assignor=name, assignments=assignments)
        self._call(request, self._on_sync)

    def _on_sync(self, result: SyncResult) -> None:
        if result.error is not E.NONE:
            self._recover(reaction(SYNC, result.error))
            return
        before, self.owned = partitions_of(self.owned), dict(parse_assignment(result.assignment))
        self.phase = Phase.OWNING
        self._claim = self.owned, self.generation
        self._hold(partitions_of(self.owned), reads=True)
        if self._environment.assignor.is_cooperative and before - partitions_of(self.owned):
            self.rejoin(FOLLOW_UP)

    def _on_heartbeat(self, result: HeartbeatResult) -> None:
        if result.error is not E.NONE:
            self._recover(reaction(HEARTBEAT, result.error))

    def _leave(self, reason: str) -> None:
        if self.member_id:
            self._environment.send(leave_request(self._environment.group_id, self.process, self.member_id, reason), lambda _: None)

    def _recover(self, what: Reaction) -> None:
        """React to an error as Ottla's client does: by its tables."""
        if what is Reaction.FAIL:
            self._end()
        elif what in (Reaction.FORGET_MEMBER, Reaction.FORGET_GENERATION):
            member_id = self.member_id if what is Reaction.FORGET_GENERATION else ""
            self._lose_membership()
            self.member_id, self.phase = member_id, Phase.APART
            self.rejoin()
        elif what is Reaction.REJOIN:
            self.rejoin()
        else:
            self._after(RETRY_MS, self.notice if what is Reaction.IGNORE else self.rejoin)

    def _lose_membership(self) -> None:
        self._hold(frozenset(), reads=True)
        self.owned, self._claim = {}, ({}, -1)
        self.member_id, self.generation = "", -1

    def _hold(self, partitions: frozenset[TopicPartition], *, reads: bool) -> None:
        """Own these partitions and no others, as far as the stops are concerned; `reads`: and read them."""
        self._environment.stops.replace(self._held, partitions, read_before=self._held_reads, read_after=reads)
        self._held, self._held_reads = partitions, reads

    # Time

    @property
    def _is_silent(self) -> bool:
        return self._silent_until_ms is None or self._silent_until_ms > self._environment.now_ms

    def _call(self, request: MakeRequest, receive: Callable[[Any], None]) -> None:
        """Send a request; its result counts unless the member has done something else meanwhile, and not before it is awake."""
        self._attempt += 1
        attempt = self._attempt

        def take(result: Any) -> None:
            if self._attempt != attempt:
                return
            if self._is_silent:
                self._when_awake(lambda: take(result))
            else:
                receive(result)

        self._environment.send(request, take)

    def _after(self, delay_ms: int, act: Callable[[], None]) -> None:
        self._attempt += 1
        attempt = self._attempt
        self._environment.later(delay_ms, lambda: act() if self._attempt == attempt else None)

    def _when_awake(self, act: Callable[[], None]) -> None:
        """Call `act` when the silence ends, if it does."""
        if self._silent_until_ms is not None:
            attempt, delay_ms = self._attempt, self._silent_until_ms - self._environment.now_ms
            self._environment.later(delay_ms, lambda: act() if self._attempt == attempt else None)
