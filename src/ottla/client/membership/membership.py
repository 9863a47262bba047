"""The membership of one consumer in a classic group, without I/O (Kafka: `AbstractCoordinator`, and `ConsumerCoordinator` where it joins).

It decides when to look for the coordinator, join, synchronise, send heartbeats and leave, what an error means, and, where it leads the
group, who gets which partitions (Kafka: `ConsumerCoordinator.onLeaderElected`). Its user sends what `next_requests` gives, and reports each
outcome with the request itself. Two steps belong to the application's thread: before a JoinGroup it gives up partitions (`must_prepare`,
`prepared`), and after a SyncGroup it takes over the assignment (`assigned`, `completed`). Its timers are the next heartbeat, the session,
and the application's polls (Kafka: `Heartbeat`). Times are milliseconds of a clock that never jumps; `rng` gives numbers from 0 to 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.backoff import backoff_ms
from ottla.client.membership.evidence import Evidence, generation_text
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.values import (
    TRANSITIONS,
    Assigned,
    GroupRequest,
    GroupSettings,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    MemberState,
    SyncGroup,
    SyncResponse,
)
from ottla.client.reactions import HEARTBEAT, JOIN, SYNC, Reaction
from ottla.groups.assignors import NO_RACKS, Assignor, Racks, Subscriber
from ottla.groups.assignors._checks import AssignorError, checked_assignment, named_in_errors
from ottla.groups.reason_evidence import with_evidence
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    NO_GENERATION,
    Partitions,
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
)


class HeartbeatTimers:
    """One member's timers; one heartbeat is in flight at most."""

    def __init__(self, settings: GroupSettings, now_ms: float) -> None:
        self._settings = settings
        self._failures = 0
        self.polled_ms = now_ms
        self.in_flight = False
        self._session_ends_ms = self._next_ms = 0.0
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        """A rebalance is complete: all timers start again."""
        self.poll(now_ms)
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms
        self.reset_session(now_ms)
        self._failures = 0
        self.in_flight = False

    def reset_session(self, now_ms: float) -> None:
        """The coordinator was found, or has answered."""
        self._session_ends_ms = now_ms + self._settings.session_timeout_ms

    def poll(self, now_ms: float) -> None:
        """The application has called poll; the network's thread may learn of it later."""
        self.polled_ms = max(self.polled_ms, now_ms)

    def skip(self, until_ms: float, *, is_due: bool) -> None:
        """Heartbeats were answered until then; the next one is due at once, or an interval later."""
        self._next_ms = until_ms + (0 if is_due else self._settings.heartbeat_interval_ms)
        self.reset_session(until_ms)
        self._failures = 0

    @property
    def due_ms(self) -> float:
        """When the next heartbeat is due."""
        return self._next_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat is on its way."""
        self.in_flight = True
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms

    def succeeded(self, now_ms: float) -> None:
        """The coordinator has answered a heartbeat, and knows the member."""
        self.in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: float, rng: float) -> None:
        """A heartbeat was not answered, or with an error: send the next one after a back-off."""
        self.in_flight = False
        self._failures += 1
        self._next_ms = now_ms + backoff_ms(self._failures, *self._settings.retry_backoff_ms, rng)

    def is_session_over(self, now_ms: float) -> bool:
        """Whether the coordinator has not answered for session.timeout.ms."""
        return now_ms >= self._session_ends_ms

    @property
    def poll_due_ms(self) -> float:
        """When max.poll.interval.ms is over since the application's last poll."""
        return self.polled_ms + self._settings.max_poll_interval_ms

    def is_poll_over(self, now_ms: float) -> bool:
        """Whether the application has not called poll for max.poll.interval.ms."""
        return now_ms >= self.poll_due_ms

    def is_due(self, now_ms: float) -> bool:
        """Whether a heartbeat has to be sent."""
        return not self.in_flight and now_ms >= self._next_ms

    def next_ms(self) -> float:
        """When the first of the timers ends."""
        return min(self._session_ends_ms, self.poll_due_ms, *([] if self.in_flight else [self._next_ms]))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The assignments as bytes by member id, and the topics to which any member subscribes."""

    assignments: tuple[tuple[str, bytes], ...]
    topics: frozenset[str]


def make_assignments(
    assignor: Assignor, members: Sequence[JoinedMember], partitions: Mapping[str, int], racks: Racks = NO_RACKS
) -> GroupAssignment:
    """Assign `partitions` (their count by topic; topics that are not known yet are left out) to `members`.

    Raises PeerError for a subscription that cannot be read, and AssignorError.
    """
    if len({member.member_id for member in members}) < len(members):
        raise PeerError("the coordinator names a member twice")
    subscribers = [_subscriber(assignor, member) for member in members]
    topics = frozenset(topic for each in subscribers for topic in each.topics)
    made = checked_assignment(assignor, subscribers, {topic: count for topic, count in partitions.items() if topic in topics}, racks)
    assignments = tuple((each.member_id, encode_assignment(made.get(each.member_id, {}))) for each in subscribers)
    return GroupAssignment(assignments=assignments, topics=topics)


def _subscriber(assignor: Assignor, member: JoinedMember) -> Subscriber:
    read = parse_subscription(member.metadata)
    described = Subscriber(
        member_id=member.member_id,
        topics=frozenset(read.topics),
        instance_id=member.instance_id,
        owned=read.owned,
        generation=read.generation,
        rack=read.rack,
    )
    with named_in_errors(assignor):
        return assignor.with_user_data(described, read.user_data)


POLL_EXPIRED: Final = "consumer poll timeout has expired."
LEAVING_BY_ITSELF: Final = "consumer pro-actively leaving the group"
_NO_RESPONSE: Final = "DisconnectException"
_HOPEFUL: Final = frozenset({Reaction.REJOIN, Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER})
"""After these the next JoinGroup is expected to succeed."""
_AT_ONCE_MAX: Final = 3
"""Failures in a row after which it is expected no more."""
_Snapshot = dict[str, tuple[int, Sequence[frozenset[str]] | None]]
"""Of each topic the number of partitions, and the racks of their replicas."""


class Membership(GroupMembership):
    """One member of a classic group."""

    def __init__(
        self, settings: GroupSettings, assignors: Sequence[Assignor], *, evidence: Evidence, now_ms: float, rng: Callable[[], float]
    ) -> None:
        super().__init__(settings, evidence=evidence, now_ms=now_ms, rng=rng)
        self._state = MemberState.UNJOINED
        self._is_cooperative = all(each.is_cooperative for each in assignors)
        self._assignors = {each.name: each for each in assignors}
        self._timers = HeartbeatTimers(settings, now_ms)
        self._joining_topics: frozenset[str] | None = None
        self._joined_topics: frozenset[str] | None = None
        self._owned: Partitions = {}
        self._partitions: Mapping[str, int] | None = None
        self._racks: Racks = NO_RACKS
        self._assigned_for: _Snapshot | None = None
        self._last_assignments: dict[str, tuple[Partitions, int]] = {}
        self._is_leader = False
        self._protocol = ""
        self.needs_rejoin = True
        """Whether a JoinGroup is wanted."""
        self._needs_prepare = True
        self._reason = ""
        self._retry_at_ms = now_ms
        self._failures = self._refused = 0
        self._rebalancing: JoinGroup | SyncGroup | None = None
        self._heartbeat: Heartbeat | None = None
        self._next: list[SyncGroup | LeaveGroup] = []

    # What the application does.

    @property
    def state(self) -> MemberState:
        return self._state

    @property
    def is_cooperative(self) -> bool:
        return self._is_cooperative

    @property
    def is_over(self) -> bool:
        return self.failure is ErrorCode.FENCED_INSTANCE_ID

    @property
    def claim(self) -> int:
        return self.generation

    @property
    def must_prepare(self) -> bool:
        """Whether the application has to give up partitions before the next JoinGroup."""
        return self.is_subscribed and self.needs_rejoin and self._needs_prepare and self.assigned is None and self._is_settled

    @property
    def has_lost_partitions(self) -> bool:
        """Whether the partitions that it gives up may belong to other members already."""
        return self.generation == NO_GENERATION or not self.member_id

    @property
    def poll_due_ms(self) -> float:
        """When the member leaves, unless the application polls before."""
        return self._timers.poll_due_ms

    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """The topics to join with; a change needs a rebalance."""
        self._topics = topics
        if self._joined_topics is not None and topics != self._joined_topics:
            self.request_rejoin("subscription has changed")

    def poll(self, now_ms: float) -> None:
        """The application has called poll."""
        if self.has_poll_expired and self._timers.is_poll_over(now_ms):
            self._evidence.polled_late(self._timers.polled_ms, now_ms)
        self._timers.poll(now_ms)

    def skip_heartbeats(self, until_ms: float, *, is_due: bool = False) -> None:
        """Heartbeats were sent and answered until then, without a step for each; the next one is due at once, or an interval later."""
        self._timers.skip(until_ms, is_due=is_due)
        self._evidence.heartbeat_sent_ms = until_ms
        self._evidence.heartbeat_answered(until_ms, is_rejoin_due=False)

    def request_rejoin(self, reason: str) -> None:
        """Join again; `reason` is what the broker logs."""
        if not self.needs_rejoin or reason != self._reason:
            self._evidence.rejoin_requested(reason)
        self.needs_rejoin = True
        self._reason = reason

    def refuse_assignment(self, reason: str, now_ms: float) -> None:
        """The assignment cannot be meant: join again, at once the first time, then later and later."""
        self.assigned = None
        self._refused += 1
        self.request_rejoin(reason)
        if self._refused > 1:
            self._retry_at_ms = now_ms + self._backoff_ms(self._refused - 1)

    def prepared(self, owned: Partitions) -> None:
        """The application has given up what it had to; `owned` is what it keeps."""
        self._needs_prepare = False
        self._owned = owned
        self._evidence.prepared()

    def completed(self) -> None:
        """The application has taken over the assignment."""
        self.assigned = None
        self._refused = 0

    def leave(self, reason: str) -> None:
        """Leave the group and forget the subscription. Static members stay in the group until their session expires."""
        self._topics = self._joined_topics = None
        self._leave(with_evidence(reason, ""))
        self._reason = ""

    @property
    def is_leaving(self) -> bool:
        """Whether a LeaveGroup is to be sent."""
        return self.coordinator is not None and any(isinstance(each, LeaveGroup) for each in self._next)

    # Metadata and the coordinator.

    def on_metadata(self, partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> None:
        """The number of partitions of each topic in which the group is interested, and the racks of their replicas."""
        self._partitions, self._racks = partitions, racks
        if self.state is MemberState.STABLE:
            self._check_metadata()

    def on_topic_ids(self, names: Mapping[str, str]) -> None:
        """Assignments have names."""

    def on_coordinator(self, broker_id: int, now_ms: float) -> None:
        super().on_coordinator(broker_id, now_ms)
        self._timers.reset_session(now_ms)

    def _on_coordinator_lost(self, now_ms: float) -> None:
        if self._heartbeat is not None:
            self._heartbeat = None
            self._timers.failed(now_ms, self._rng())
        if self._rebalancing is not None:
            self._rebalancing = None
            self._next = [each for each in self._next if isinstance(each, LeaveGroup)]
            self._rebalance_failed(Reaction.RETRY, None, "", now_ms)

    # Requests and their outcomes.

    def next_requests(self, now_ms: float) -> list[GroupRequest]:
        """What to send now; each request once."""
        heartbeat = self._next_heartbeat(now_ms) if self.state.sends_heartbeats else None
        requests: list[GroupRequest] = [] if heartbeat is None else [heartbeat]
        if self.coordinator is not None:
            requests += self._next
            self._next = []
        if self._may_join and now_ms >= self._retry_at_ms and self.coordinator is not None:
            try:
                requests.append(self._join())
                self._evidence.joining(now_ms)
            except AssignorError as error:
                self.failure = error
                self._failures += 1
                self._retry_at_ms = now_ms + self._backoff_ms(self._failures)
        return [*requests, *self._next_search(now_ms)]

    def next_ms(self) -> float | None:
        """When `next_requests` may have something without any report; None when it waits for reports alone."""
        search_ms = self._search_ms()
        times = [] if search_ms is None else [search_ms]
        if self.state.sends_heartbeats and self.coordinator is not None:
            times.append(self._timers.next_ms())
        if self._may_join and self.coordinator is not None:
            times.append(self._retry_at_ms)
        return min(times, default=None)

    def on_response(self, request: Any, response: Any, now_ms: float) -> None:
        match request:
            case JoinGroup():
                self.on_join(request, response, now_ms)
            case SyncGroup():
                self.on_sync(request, response, now_ms)
            case Heartbeat():
                self.on_heartbeat(request, response, now_ms)

    def on_join(self, request: JoinGroup, response: JoinResponse, now_ms: float) -> None:
        """A response to JoinGroup. The leader makes the assignments of all members."""
        if request is not self._rebalancing:
            return
        self._rebalancing = None
        if JOIN.of(response.error) is Reaction.TAKE_MEMBER_ID and not request.member_id and response.member_id:
            # No failure: the coordinator keeps the member id for one session timeout, which no back-off may use up.
            self._move_to(MemberState.UNJOINED)
            self.member_id = response.member_id
            self.request_rejoin(f"need to re-join with the given member-id: {self.member_id}")
            self._retry_at_ms = now_ms
            return
        if response.error is not ErrorCode.NONE:
            self._rebalance_failed(JOIN.of(response.error), response.error, "JOIN_GROUP", now_ms)
            return
        if response.protocol_name not in self._assignors:
            self._rebalance_failed(Reaction.TELL, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "JOIN_GROUP", now_ms)
            return
        self._move_to(MemberState.COMPLETING_REBALANCE)
        self.generation, self.member_id = response.generation, response.member_id
        self._protocol = response.protocol_name
        self._joined_topics = self._joining_topics
        self._timers.reset(now_ms)
        self._evidence.joined(self._generation_text(), now_ms)
        self._is_leader = response.leader == response.member_id
        try:
            assignments = self._lead(response) if self._is_leader else ()
        except (AssignorError, PeerError) as error:
            self._rebalance_failed(Reaction.RETRY, error, "", now_ms)
            return
        self._rebalancing = SyncGroup(
            group_id=self.settings.group_id,
            generation=self.generation,
            member_id=self.member_id,
            instance_id=self.settings.instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=assignments,
        )
        self._next.append(self._rebalancing)

    def on_sync(self, request: SyncGroup, response: SyncResponse, now_ms: float) -> None:
        """A response to SyncGroup."""
        if request is not self._rebalancing:
            return
        self._rebalancing = None
        if response.error is not ErrorCode.NONE:
            self._rebalance_failed(SYNC.of(response.error), response.error, "SYNC_GROUP", now_ms)
            return
        try:
            partitions = parse_assignment(response.assignment)
        except PeerError as error:
            self._rebalance_failed(Reaction.RETRY, error, "", now_ms)
            return
        self._move_to(MemberState.STABLE)
        self._evidence.assigned(self._generation_text())
        self.needs_rejoin, self._needs_prepare = False, True
        self._reason = ""
        self.assigned = Assigned(generation=self.generation, assignor=self._protocol, partitions=partitions)
        self._last_assignments[self._protocol] = partitions, self.generation
        if self._topics != self._joined_topics:
            self.request_rejoin("subscription has changed")
        else:
            self._check_metadata()

    def on_heartbeat(self, request: Heartbeat, error: ErrorCode, now_ms: float) -> None:
        """A response to Heartbeat. One that a member sent in an earlier generation changes nothing."""
        if request is not self._heartbeat:
            return
        self._heartbeat = None
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._timers.succeeded(now_ms)
            self._failures = 0
            if error is not ErrorCode.NONE and self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
            self._evidence.heartbeat_answered(now_ms, is_rejoin_due=error is not ErrorCode.NONE and self.must_prepare)
            return
        self._timers.failed(now_ms, self._rng())
        if (request.generation, request.member_id) == (self.generation, self.member_id):
            what = HEARTBEAT.of(error)
            if what in _HOPEFUL:
                self._back_off(now_ms, is_hopeful=True)
            self._react(what, error, "HEARTBEAT", now_ms)

    def on_no_response(self, request: GroupRequest, now_ms: float) -> None:
        """A request was lost with its connection, or not answered in time."""
        if request is self._finding:
            self.on_no_coordinator(None, now_ms)
        elif request is self._heartbeat or request is self._rebalancing:
            self.coordinator_lost(now_ms)

    def commit_refused(self, error: ErrorCode, generation: int, member_id: str, now_ms: float) -> bool:
        """A commit of this generation and member was refused: whether a rebalance is the reason, so that it may succeed afterwards."""
        is_current = (generation, member_id) == (self.generation, self.member_id)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("offset commit failed since group is already rebalancing")
            return True
        if is_current and error is ErrorCode.FENCED_INSTANCE_ID:
            self.failure = error
        elif not is_current or self.state is MemberState.PREPARING_REBALANCE:
            # The response to JoinGroup, on another connection, says what has become of the member.
            return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
        elif self.is_subscribed:
            self._back_off(now_ms, is_hopeful=True)
            self._removed(error, "OFFSET_COMMIT", now_ms, keeps_id=error is ErrorCode.ILLEGAL_GENERATION)
        return False

    # Decisions.

    @property
    def _is_settled(self) -> bool:
        """No JoinGroup or SyncGroup is on its way, and nothing failed."""
        return self._rebalancing is None and self.failure is None

    @property
    def _may_join(self) -> bool:
        return (
            self.is_subscribed
            and self.needs_rejoin
            and not self._needs_prepare
            and self.assigned is None
            and self._is_settled
            and self._partitions is not None
        )

    def _next_heartbeat(self, now_ms: float) -> Heartbeat | None:
        """The checks of Kafka's heartbeat thread, in its order."""
        timers = self._timers
        if self.coordinator is None:
            return None
        if timers.is_session_over(now_ms):
            self._evidence.session_over(now_ms)
            self.coordinator_lost(now_ms)
            return None
        if timers.is_poll_over(now_ms):
            self.has_poll_expired = True
            self._evidence.poll_expired(timers.polled_ms, now_ms)
            self._leave(with_evidence(POLL_EXPIRED, self._evidence.text))
            self.request_rejoin(LEAVING_BY_ITSELF)
            return None
        if not timers.is_due(now_ms):
            return None
        self._evidence.heartbeat_sent(timers.due_ms, now_ms)
        timers.sent(now_ms)
        self._heartbeat = Heartbeat(
            group_id=self.settings.group_id,
            generation=self.generation,
            member_id=self.member_id,
            instance_id=self.settings.instance_id,
        )
        return self._heartbeat

    def _join(self) -> JoinGroup:
        protocols = tuple((name, self._subscription(assignor)) for name, assignor in self._assignors.items())
        self._move_to(MemberState.PREPARING_REBALANCE)
        settings = self.settings
        self._joining_topics = self._topics
        self._rebalancing = JoinGroup(
            group_id=settings.group_id,
            member_id=self.member_id,
            instance_id=settings.instance_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.longest_rebalance_ms,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=protocols,
            reason=with_evidence(self._reason, self._evidence.text),
        )
        return self._rebalancing

    def _lead(self, response: JoinResponse) -> tuple[tuple[str, bytes], ...]:
        if response.member_id not in {member.member_id for member in response.members}:
            raise PeerError("the coordinator names this member the leader of a group without it")
        made = make_assignments(self._assignors[self._protocol], response.members, self._partitions or {}, self._racks)
        self.group_topics = made.topics
        self._assigned_for = self._snapshot()
        return () if response.skip_assignment else made.assignments

    def _subscription(self, assignor: Assignor) -> bytes:
        with named_in_errors(assignor):
            user_data = assignor.user_data(*self._last_assignments.get(assignor.name, (None, NO_GENERATION)))
        return encode_subscription(
            self._topics or (), owned=self._owned, generation=self.generation, rack=self.settings.rack, user_data=user_data
        )

    def _generation_text(self) -> str:
        return generation_text(self.generation, self.member_id, self._protocol)

    def _snapshot(self) -> _Snapshot:
        """What of the metadata an assignment depends on; of racks, if this member has one."""
        topics = self.group_topics | (self._topics or frozenset())
        racks = self._racks if self.settings.rack else NO_RACKS
        return {topic: (count, racks.get(topic)) for topic, count in (self._partitions or {}).items() if topic in topics}

    def _check_metadata(self) -> None:
        """The leader starts a rebalance when its assignment was made for other metadata."""
        if self._is_leader and self._assigned_for is not None and self._snapshot() != self._assigned_for:
            self.request_rejoin("cached metadata has changed")

    def _rebalance_failed(self, what: Reaction, error: ErrorCode | Exception | None, api: str, now_ms: float) -> None:
        """A JoinGroup or SyncGroup failed: back to UNJOINED, and join again as the error demands. An exception is for the application."""
        self._move_to(MemberState.UNJOINED)
        self._back_off(now_ms, is_hopeful=what in _HOPEFUL)
        self.request_rejoin(f"rebalance failed due to {_NO_RESPONSE if error is None else _exception_name(error)}")
        if isinstance(error, Exception):
            self.failure = error
        if isinstance(error, ErrorCode):
            self._react(what, error, api, now_ms)

    def _react(self, what: Reaction, error: ErrorCode, api: str, now_ms: float) -> None:
        if what is Reaction.FIND_COORDINATOR:
            self.coordinator_lost(now_ms)
        elif what in (Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER):
            self._removed(error, api, now_ms, keeps_id=what is Reaction.FORGET_GENERATION)
        elif what is Reaction.TELL:
            if api == "HEARTBEAT":
                self._forget(f"encountered {error.name} from {api} response", keeps_id=True)
            self.failure = error

    def _removed(self, error: ErrorCode, api: str, now_ms: float, *, keeps_id: bool) -> None:
        """The coordinator has no such member, or not in this generation."""
        self._evidence.removed(error.name, api, self._generation_text(), self._timers.polled_ms, now_ms)
        self._forget(f"encountered {error.name} from {api} response", keeps_id=keeps_id)

    def _forget(self, reason: str, *, keeps_id: bool) -> None:
        """Other members may own the partitions by now: they are given up as lost before the next JoinGroup."""
        self._move_to(MemberState.UNJOINED)
        self.generation = NO_GENERATION
        if not keeps_id:
            self.member_id = ""
        self.assigned = None
        self._is_leader = False
        self._rebalancing = self._heartbeat = None
        self._next = [each for each in self._next if isinstance(each, LeaveGroup)]
        self._needs_prepare = True
        self.request_rejoin(reason)

    def _leave(self, reason: str) -> None:
        if self.member_id and self.settings.instance_id is None and self.coordinator is not None:
            self._evidence.leaving(self.member_id, self.coordinator, reason)
            leave = LeaveGroup(group_id=self.settings.group_id, member_id=self.member_id, instance_id=None, reason=reason)
            self._forget(LEAVING_BY_ITSELF, keeps_id=False)
            self._next.append(leave)
        else:
            self._forget(LEAVING_BY_ITSELF, keeps_id=False)

    def _back_off(self, now_ms: float, *, is_hopeful: bool) -> None:
        """Count a failure since the last answered heartbeat, and join later. `is_hopeful`: the first few are followed by a join at once."""
        self._failures += 1
        waits = self._failures - _AT_ONCE_MAX if is_hopeful else self._failures
        self._retry_at_ms = now_ms + self._backoff_ms(waits) if waits > 0 else now_ms

    def _move_to(self, state: MemberState) -> None:
        assert state is self._state or state in TRANSITIONS[self._state], f"{self._state} to {state}"
        self._state = state


def _exception_name(error: ErrorCode | Exception) -> str:
    """The name of an exception; for an error code that of Java's, as its members give it in their reasons."""
    if isinstance(error, Exception):
        return type(error).__name__
    return "".join(part.capitalize() for part in error.name.split("_")) + "Exception"
