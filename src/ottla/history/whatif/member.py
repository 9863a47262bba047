"""A modelled member: one consumer process that does what was recorded of it, and otherwise what its membership says.

Its membership is that of `ottla.Consumer` (`ottla.client.membership`), whose rules are those of Kafka's clients: it joins, synchronises,
sends heartbeats, and leaves when the time between two polls exceeds max.poll.interval.ms. Here is the process around it: an application
that polls all the time but in a poll gap, the silences in which neither runs, and what becomes of its partitions.

Its environment is the replay's: the time, the coordinator, the assignor, and the sums that the stops of its partitions are added to.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.client.membership.evidence import Evidence
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import FindCoordinator, GroupRequest, GroupSettings, JoinGroup, MemberState, SyncGroup
from ottla.groups.assignors import Assignor
from ottla.groups.assignors._checks import AssignorError
from ottla.groups.commands import LeaveGroup, LeavingMember
from ottla.history.whatif.behaviour import Action, ActionKind, Process
from ottla.history.whatif.requests import MakeCommand, command_of, report_result
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import Partitions

RETRY_MS: Final = 100
"""After how long something is tried again that a rebalance does not allow now."""
ADMIN: Final = "member was removed by an admin"
CLOSED: Final = "the consumer is being closed"
FOLLOW_UP: Final = "need to revoke partitions and re-join"
RESUBSCRIBED: Final = "subscription has changed"


def partitions_of(owned: Partitions) -> frozenset[TopicPartition]:
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

    def send(self, make: MakeCommand, receive: Callable[[Any], None]) -> None:
        """Send a command; `receive` gets its result."""

    def later(self, delay_ms: int, act: Callable[[], None]) -> None:
        """Call `act` after `delay_ms`."""

    def new_member_id(self, process: str) -> str:
        """An id for a process that no member has had."""

    def partition_counts(self) -> Mapping[str, int]:
        """The partitions of each topic now."""

    def sync_delay_ms(self) -> int:
        """How long a leader takes now to assign them."""

    def keep_session(self, member_id: str, instance_id: str | None) -> None:
        """Heartbeats of this member have reached the coordinator until now."""

    def is_settled(self) -> bool:
        """Whether no member has a way to go to its target (KIP-848)."""

    def topic_names(self) -> Mapping[str, str]:
        """The names of topics by their ids, as Kafka prints them."""


MembershipT = TypeVar("MembershipT", bound=GroupMembership)


class ModelMember(ABC, Generic[MembershipT]):
    """One process. `origin` is the index of its last action: what it triggers is counted as a consequence of that."""

    def __init__(self, process: Process, environment: Environment) -> None:
        self.process = process
        self.origin = -1
        self.is_running = False
        self._environment = environment
        self._membership: MembershipT
        """That of its present run, or of its last one."""
        self._silent_until_ms: int | None = 0
        self._polls_again_ms: int | None = 0
        """The end of its silence, and of its poll gap; None: never."""
        self._when_awake: list[Callable[[], None]] = []
        """What came up during its silence."""
        self._timer = 0
        """The number of the timer that counts; it is void when the member has worked again."""
        self._owned: Partitions = {}
        self._owner_id = ""
        """What it owns, and the member id that got it."""
        self._held: frozenset[TopicPartition] = frozenset()
        self._reads = False

    @property
    def is_joining(self) -> bool:
        """Whether a JoinGroup or SyncGroup is on its way."""
        return self.is_running and self._membership.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def sends_heartbeats(self) -> bool:
        """Whether it notices a change of the group within a heartbeat interval; a silent member does when it is awake."""
        return self.is_running and not self._is_silent and self._membership.state.sends_heartbeats

    def keeps(self, member_id: str) -> bool:
        """Whether it keeps the session of this member id by heartbeats."""
        return self.sends_heartbeats and self._membership.member_id == member_id

    # What the group does to it

    def notice(self) -> None:
        """Send a heartbeat, as it does every heartbeat.interval.ms: so it notices a rebalance, or that it was removed."""
        self._go_on(is_due=True)

    def removed(self, member_id: str) -> None:
        """The coordinator has removed this member id: its partitions have no owner until they are assigned."""
        if member_id == self._owner_id:
            self._own({})

    # What it does by itself

    def act(self, origin: int, action: Action) -> None:
        """Do one action of its process; a process that is not running can only start."""
        if not self.is_running and action.kind is not ActionKind.START:
            return
        self.origin = origin
        self._go_on()
        match action.kind:
            case ActionKind.START:
                self._start()
            case ActionKind.CLOSE:
                self._close()
            case ActionKind.CRASH:
                self._end()
            case ActionKind.SILENCE:
                self._fall_silent(action)
            case ActionKind.POLL_GAP:
                self._stop_polling(action)
            case ActionKind.RESUBSCRIBE:
                self._resubscribe(action)
            case ActionKind.REMOVAL:
                self._remove()

    def _start(self) -> None:
        now_ms = self._environment.now_ms
        self._membership, self.is_running = self._new_membership(), True
        self._silent_until_ms = self._polls_again_ms = now_ms
        self._when_awake.clear()
        self._own({})
        self._work()

    @abstractmethod
    def _new_membership(self) -> MembershipT:
        """A membership that subscribes to the process's topics."""

    @abstractmethod
    def _close(self) -> None:
        """Close the consumer: what a static member owns waits until its session ends."""

    def _end(self) -> None:
        self.is_running = False
        self._update_stops()

    def _fall_silent(self, action: Action) -> None:
        if not self._is_silent:
            self._skip_heartbeats(is_due=True)
        self._silent_until_ms = action.until_ms
        self._update_stops()
        if action.until_ms is not None:
            self._later(action.length_ms, self._wake)

    def _wake(self) -> None:
        """Its heartbeat thread may find that the session or the poll interval is over; then it does what has waited."""
        self._send_all()
        self._update_stops()
        waiting, self._when_awake = self._when_awake, []
        for act in waiting:
            act()
        self._go_on(is_due=True)

    def _stop_polling(self, action: Action) -> None:
        self._polls_again_ms = action.until_ms
        if action.until_ms is not None:
            self._later(action.length_ms, self._go_on)
        self._update_stops()
        self._go_on()

    @abstractmethod
    def _resubscribe(self, action: Action) -> None:
        """Join again with other metadata, or subscribe to something else."""

    def _remove(self) -> None:
        group_id = self._environment.group_id
        leaving = LeavingMember(member_id=self._membership.member_id, instance_id=self.process.instance_id, reason=ADMIN)
        self._environment.send(lambda reply_to: LeaveGroup(reply_to=reply_to, group_id=group_id, members=(leaving,)), lambda _: None)

    # The application and its membership

    def _go_on(self, *, is_due: bool = False) -> None:
        """Work, after a time in which its heartbeats went on."""
        if self.is_running and not self._is_silent:
            self._skip_heartbeats(is_due=is_due)
            self._work()

    @abstractmethod
    def _skip_heartbeats(self, *, is_due: bool) -> None:
        """They have reached the coordinator until now."""

    def _work(self) -> None:
        """Poll, outside a gap, send what there is to send, and go on when the membership has something more."""
        membership = self._membership
        self._timer += 1
        if self._polls:
            self._poll()
        self._send_all()
        if membership.has_poll_expired:
            self._update_stops()
        wake_ms = self._wake_ms()
        if wake_ms is not None:
            number = self._timer
            delay_ms = max(0, ceil(wake_ms) - self._environment.now_ms)
            self._later(delay_ms, lambda: self._go_on() if number == self._timer else None)

    @abstractmethod
    def _wake_ms(self) -> float | None:
        """When the process has something to do by itself; None: it waits for the group."""

    @abstractmethod
    def _poll(self) -> None:
        """Poll: take over what is assigned, give up what is not."""

    def _send_all(self) -> None:
        now_ms = self._environment.now_ms
        requests = self._membership.next_requests(now_ms)
        for request in requests:
            if isinstance(request, FindCoordinator):
                self._membership.on_coordinator(0, now_ms)
                requests += self._membership.next_requests(now_ms)
            else:
                self._send(request)

    def _send(self, request: GroupRequest) -> None:
        process, membership = self.process, self._membership
        make = command_of(request, client_id=process.name, client_host=process.client_host, new_member_id=self._new_member_id)

        def receive(result: Any) -> None:
            self._run(membership, lambda: self._take(request, result))

        if isinstance(request, SyncGroup) and request.assignments:
            self._later(self._environment.sync_delay_ms(), lambda: self._environment.send(make, receive))
        else:
            self._environment.send(make, receive)

    def _take(self, request: GroupRequest, result: Any) -> None:
        report_result(self._membership, request, result, self._environment.now_ms)
        self._work()

    def _new_member_id(self) -> str:
        return self._environment.new_member_id(self.process.name)

    def _own(self, owned: Partitions) -> None:
        """Own these partitions and no others."""
        self._owned = owned
        self._update_stops(partitions_of(owned))

    def _update_stops(self, held: frozenset[TopicPartition] | None = None) -> None:
        """It holds `held`, or what it did, and reads it, unless it does not run, is silent, or will not poll before it loses it."""
        held = self._held if held is None else held
        polls = self._polls_again_ms is not None and not self._membership.has_poll_expired
        reads = polls and self.is_running and not self._is_silent
        if held is not self._held or reads is not self._reads:
            self._environment.stops.replace(self._held, held, read_before=self._reads, read_after=reads)
        self._held, self._reads = held, reads

    # Time

    @property
    def _is_silent(self) -> bool:
        return self._silent_until_ms is None or self._silent_until_ms > self._environment.now_ms

    @property
    def _polls(self) -> bool:
        return self._polls_again_ms is not None and self._polls_again_ms <= self._environment.now_ms

    def _later(self, delay_ms: int, act: Callable[[], None]) -> None:
        membership = self._membership
        self._environment.later(delay_ms, lambda: self._run(membership, act))

    def _run(self, membership: MembershipT, act: Callable[[], None]) -> None:
        """Call `act` when the process is awake, unless its run is over, which had this membership."""
        if not self.is_running or membership is not self._membership:
            return
        if self._is_silent:
            self._when_awake.append(act)
        else:
            act()


class ClassicModelMember(ModelMember[Membership]):
    """A process of the classic protocol."""

    def rejoin(self, reason: str) -> None:
        """Join again at the next poll, with its member id."""
        self._membership.request_rejoin(reason)
        self._go_on()

    def _new_membership(self) -> Membership:
        process, environment = self.process, self._environment
        settings = GroupSettings(
            group_id=environment.group_id,
            instance_id=process.instance_id,
            session_timeout_ms=process.session_timeout_ms,
            max_poll_interval_ms=process.rebalance_timeout_ms,
        )
        now_ms = environment.now_ms
        evidence = Evidence(settings, now_ms=now_ms)
        membership = Membership(settings, [environment.assignor], evidence=evidence, now_ms=now_ms, rng=lambda: 0.5)
        membership.subscribe(process.topics)
        membership.on_metadata(environment.partition_counts())
        return membership

    def _close(self) -> None:
        """A static member sends no LeaveGroup."""
        if self.process.instance_id is None:
            self._membership.leave(CLOSED)
            self._send_all()
            self._own({})
        self._end()

    def _resubscribe(self, action: Action) -> None:
        if self.is_joining:
            self._later(RETRY_MS, lambda: self._resubscribe(action))
            return
        if action.topics is not None:
            self._membership.subscribe(action.topics)
        self.rejoin(RESUBSCRIBED)

    def _skip_heartbeats(self, *, is_due: bool) -> None:
        membership = self._membership
        if membership.state.sends_heartbeats:
            membership.skip_heartbeats(self._environment.now_ms, is_due=is_due)
            self._environment.keep_session(membership.member_id, self.process.instance_id)

    def _wake_ms(self) -> float | None:
        membership = self._membership
        if not membership.state.sends_heartbeats:
            return membership.next_ms()
        return None if self._polls else membership.poll_due_ms

    def _poll(self) -> None:
        membership = self._membership
        membership.poll(self._environment.now_ms)
        membership.has_poll_expired = False
        failure = membership.take_failure()
        if isinstance(failure, AssignorError):
            raise failure
        if failure is not None:
            self._end()
            return
        assigned = membership.assigned
        if assigned is not None:
            before = self._held
            self._owner_id = membership.member_id
            self._own(assigned.partitions)
            membership.completed()
            if before - self._held:
                membership.request_rejoin(FOLLOW_UP)
        if membership.must_prepare:
            if membership.has_lost_partitions or not membership.is_cooperative:
                self._own({})
            membership.prepared(self._owned)

    def _take(self, request: GroupRequest, result: Any) -> None:
        """A leader assigns the partitions that there are when its JoinGroup is answered; what is added later is an action of its own."""
        if isinstance(request, JoinGroup):
            self._membership.on_metadata(self._environment.partition_counts())
        super()._take(request, result)
