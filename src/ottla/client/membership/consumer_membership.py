"""The membership of one consumer in a group of the consumer protocol (KIP-848), without I/O (Kafka: `ConsumerMembershipManager`).

One request does everything: it joins, keeps the session, says what the member owns, and brings what the coordinator has assigned. Its user
sends what `next_requests` gives, and reports each outcome with the request itself. What belongs to the application's thread is to take over
an assignment (`assigned`): it gives up what is not in it (`gave_up`), then takes what is new (`took_over`), and the next heartbeat says so.
A member that was removed gives up everything as lost (`must_prepare`, `prepared`), and joins again with epoch 0 under the id that it made.

Partitions are another member's as soon as a heartbeat has said that this one does not own them. So once a heartbeat says what it owns,
nothing is taken over until that heartbeat is answered: what was assigned before may be taken away by it.

Times are milliseconds of a clock that never jumps; `rng` gives numbers from 0 to 1.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from ottla.client.membership.evidence import Evidence
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.values import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Assigned,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    GroupRequest,
    GroupSettings,
    MemberState,
)
from ottla.client.reactions import CONSUMER_GROUP_HEARTBEAT, Reaction
from ottla.groups.assignors import NO_RACKS, Racks
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions

JOIN_EPOCH: Final = 0
_API: Final = "CONSUMER_GROUP_HEARTBEAT"
_AT_ONCE_MAX: Final = 3
"""Failures in a row after which a reaction is expected no more to help at once."""


class ConsumerState(Enum):
    """The states of Kafka's Java client (its `MemberState`), which logs them."""

    UNSUBSCRIBED = auto()
    JOINING = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()
    STABLE = auto()
    FENCED = auto()
    STALE = auto()
    LEAVING = auto()
    FATAL = auto()


_STATES: Final = {
    ConsumerState.RECONCILING: MemberState.RECONCILING,
    ConsumerState.ACKNOWLEDGING: MemberState.RECONCILING,
    ConsumerState.STABLE: MemberState.STABLE,
}
"""What they are for the consumer; the others: not joined."""


class _Owned(NamedTuple):
    topic_id: str
    partition: int


class _Subscription(NamedTuple):
    """What the coordinator has been told."""

    topics: frozenset[str]
    regex: str


def new_member_id(rng: Callable[[], float]) -> str:
    """A random id as Kafka's clients make them: a UUID of version 4 as 22 letters of base64 (KIP-1082)."""
    data = bytearray(min(int(rng() * 256), 255) for _ in range(16))
    data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
    return urlsafe_b64encode(data).decode().rstrip("=")


class ConsumerMembership(GroupMembership):
    """One member of a group of the consumer protocol."""

    sends_patterns = True

    def __init__(self, settings: GroupSettings, *, evidence: Evidence, now_ms: float, rng: Callable[[], float]) -> None:
        super().__init__(settings, evidence=evidence, now_ms=now_ms, rng=rng)
        self.member_id = new_member_id(rng)
        self._state = ConsumerState.UNSUBSCRIBED
        self._is_over = False
        self._regex = ""
        self._claim = 0
        self._names: dict[str, str] = {}
        self._target: Mapping[str, Iterable[int]] | None = None
        self._owned: frozenset[_Owned] = frozenset()
        self._is_reconciled = False
        self._needs_prepare = True
        self._told: _Subscription | None = None
        """None: the next heartbeat says everything."""
        self._must_acknowledge = self._is_hurried = False
        self._awaits_answer = False
        """Whether a heartbeat has said what is owned and is not answered."""
        self._may_be_member = False
        self._heartbeat: ConsumerGroupHeartbeat | None = None
        self._heartbeat_sent_ms = now_ms
        self._leaves: list[ConsumerGroupHeartbeat] = []
        self._polled_ms = now_ms
        self._next_ms = self._retry_at_ms = now_ms
        self._failures = 0

    # What the application does.

    @property
    def state(self) -> MemberState:
        return _STATES.get(self._state, MemberState.UNJOINED)

    @property
    def is_cooperative(self) -> bool:
        return True

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def must_prepare(self) -> bool:
        return self.is_subscribed and self._needs_prepare and self.failure is None

    @property
    def has_lost_partitions(self) -> bool:
        return self.generation == NO_GENERATION

    @property
    def identity(self) -> tuple[int, str]:
        return (self.generation, "") if self.has_lost_partitions else (self.generation, self.member_id)

    @property
    def claim(self) -> int:
        return self._claim

    @property
    def poll_due_ms(self) -> float:
        return self._polled_ms + self.settings.max_poll_interval_ms

    @property
    def is_leaving(self) -> bool:
        return self.coordinator is not None and bool(self._leaves)

    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """What to read: the next heartbeat says it, and the coordinator assigns partitions anew."""
        self._topics, self._regex = topics, regex

    def poll(self, now_ms: float) -> None:
        if self.has_poll_expired and now_ms >= self.poll_due_ms:
            self._evidence.polled_late(self._polled_ms, now_ms)
        self._polled_ms = max(self._polled_ms, now_ms)

    def prepared(self, owned: Partitions) -> None:
        assert not owned, "a member joins without partitions"
        self._needs_prepare = False
        self._evidence.prepared()

    def gave_up(self, partitions: Iterable[TopicPartition]) -> None:
        """The application reads these no more, and what it has processed of them is committed."""
        given_up = set(partitions)
        self._owned = frozenset(each for each in self._owned if TopicPartition(self._names[each.topic_id], each.partition) not in given_up)
        self._must_acknowledge, self._is_reconciled = True, False
        self._offer()

    def took_over(self, assigned: Assigned) -> None:
        """The application owns exactly the partitions of `assigned`, which is what was offered last."""
        assert assigned is self.assigned
        self._owned = self._resolved()
        self._must_acknowledge = self._is_reconciled = True
        self._offer()
        self._evidence.prepared()
        self._move_to(ConsumerState.ACKNOWLEDGING)

    def leave(self, reason: str) -> None:
        """Leave the group and forget the subscription. The place of a static member is kept for its session."""
        self._topics, self._regex = None, ""
        self._leave(ConsumerState.UNSUBSCRIBED)

    # Metadata and the coordinator.

    def on_metadata(self, partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> None:
        """The coordinator knows the topics itself."""

    def on_topic_ids(self, names: Mapping[str, str]) -> None:
        self._names |= names
        self._offer()

    def _on_coordinator_lost(self, now_ms: float) -> None:
        if self._heartbeat is not None:
            self._heartbeat = None
            self._failed(now_ms, is_hopeful=True)
        self._told = None

    # Requests and their outcomes.

    def next_requests(self, now_ms: float) -> list[GroupRequest]:
        requests: list[GroupRequest] = []
        if self.coordinator is not None:
            if not self.has_lost_partitions and now_ms >= self.poll_due_ms:
                self.has_poll_expired = True
                self._evidence.poll_expired(self._polled_ms, now_ms)
                self._leave(ConsumerState.STALE)
            requests += self._leaves
            self._leaves = []
            due_ms = self._due_ms()
            if due_ms is not None and now_ms >= due_ms:
                requests.append(self._next_heartbeat(due_ms, now_ms))
        return [*requests, *self._next_search(now_ms)]

    def next_ms(self) -> float | None:
        times = [self._search_ms()]
        if self.coordinator is not None:
            times += [self._due_ms(), None if self.has_lost_partitions else self.poll_due_ms]
        return min((each for each in times if each is not None), default=None)

    def on_response(self, request: Any, response: Any, now_ms: float) -> None:
        """A response to a heartbeat. One of a membership that has ended meanwhile changes nothing."""
        if request is not self._heartbeat or self._heartbeat is None:
            return
        says_owned = self._heartbeat.owned is not None
        self._heartbeat = None
        if response.error is not ErrorCode.NONE:
            self._refused(response, now_ms)
            return
        self._failures = 0
        self._retry_at_ms = now_ms
        self._next_ms = self._heartbeat_sent_ms + response.heartbeat_interval_ms
        if says_owned:
            self._awaits_answer = False
        self.generation = response.member_epoch
        if response.assignment is not None:
            self._target = response.assignment
        self._offer()
        if not self._is_reconciled or self._owned != self._targeted():
            self._move_to(ConsumerState.RECONCILING)
        elif not self._must_acknowledge:
            self._move_to(ConsumerState.STABLE)
        self._evidence.heartbeat_answered(now_ms, is_rejoin_due=self.assigned is not None)

    def on_no_response(self, request: GroupRequest, now_ms: float) -> None:
        if request is self._finding:
            self.on_no_coordinator(None, now_ms)
        elif request is self._heartbeat:
            self.coordinator_lost(now_ms)

    def commit_refused(self, error: ErrorCode, generation: int, member_id: str, now_ms: float) -> bool:
        """The next heartbeat, which is sent at once, says what has become of the member."""
        self._is_hurried = True
        return False

    def skip_heartbeats(self, until_ms: float, *, is_due: bool = False) -> None:
        """Heartbeats were sent and answered until then, without a step for each; the next one is due at once, or an interval later."""
        if self._heartbeat is None:
            interval_ms = self._next_ms - self._heartbeat_sent_ms
            self._heartbeat_sent_ms = until_ms
            self._next_ms = until_ms if is_due else until_ms + interval_ms
            self._evidence.heartbeat_sent_ms = until_ms
            self._evidence.heartbeat_answered(until_ms, is_rejoin_due=False)

    # Decisions.

    def _due_ms(self) -> float | None:
        """When the next heartbeat is due; None when there is none to send, or one is on its way."""
        if self._heartbeat is not None or not self.is_subscribed or self._is_over:
            return None
        if self.has_lost_partitions:
            return None if self._needs_prepare or self.failure is not None else self._retry_at_ms
        is_new = self._told != _Subscription(self._topics or frozenset(), self._regex)
        return self._retry_at_ms if is_new or self._must_acknowledge or self._is_hurried else max(self._next_ms, self._retry_at_ms)

    def _next_heartbeat(self, due_ms: float, now_ms: float) -> ConsumerGroupHeartbeat:
        settings, told = self.settings, self._told
        is_join = self.has_lost_partitions
        now = _Subscription(self._topics or frozenset(), self._regex)
        is_full = is_join or told is None
        says_owned = is_full or self._must_acknowledge
        self._heartbeat = ConsumerGroupHeartbeat(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if is_join else self.generation,
            instance_id=settings.instance_id,
            rack=(settings.rack or None) if is_full else None,
            rebalance_timeout_ms=settings.longest_rebalance_ms if is_full else -1,
            topics=tuple(sorted(now.topics)) if is_full or told is None or told.topics != now.topics else None,
            # "" withdraws a pattern that a heartbeat without an answer may have told.
            regex=now.regex if is_full or told is None or told.regex != now.regex else None,
            assignor=settings.remote_assignor if is_full else None,
            owned=self._owned_by_topic() if says_owned else None,
        )
        self._told = now
        if is_join:
            self._may_be_member = True
            self._move_to(ConsumerState.JOINING)
        if says_owned:
            self._awaits_answer = True
            self._must_acknowledge = False
            self._claim += 1
            self._offer()
            if self._is_reconciled:
                self._move_to(ConsumerState.STABLE if self._owned == self._targeted() else ConsumerState.RECONCILING)
        self._is_hurried = False
        self._heartbeat_sent_ms = now_ms
        self._evidence.heartbeat_sent(min(due_ms, now_ms), now_ms)
        return self._heartbeat

    def _refused(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        error, what = response.error, CONSUMER_GROUP_HEARTBEAT.of(response.error)
        self._told = None  # the next heartbeat says everything
        match what:
            case Reaction.FIND_COORDINATOR:
                self._failed(now_ms, is_hopeful=True)
                self.coordinator_lost(now_ms)
            case Reaction.FORGET_GENERATION:
                self._failed(now_ms, is_hopeful=True)
                self._evidence.removed(error.name, _API, f"epoch {self.generation}", self._polled_ms, now_ms)
                self._forget(ConsumerState.FENCED)
            case Reaction.END:
                self.failure, self.failure_text = error, response.message
                self._is_over = True
                self._forget(ConsumerState.FATAL)
            case Reaction.TELL:
                self.failure, self.failure_text = error, response.message
                self._failed(now_ms, is_hopeful=False)
            case _:
                self._failed(now_ms, is_hopeful=False)

    def _leave(self, then: ConsumerState) -> None:
        if self._may_be_member and self.coordinator is not None:
            self._move_to(ConsumerState.LEAVING)
            epoch = LEAVE_EPOCH if self.settings.instance_id is None else STATIC_LEAVE_EPOCH
            self._leaves.append(
                ConsumerGroupHeartbeat(
                    group_id=self.settings.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.settings.instance_id
                )
            )
        self._forget(then)

    def _forget(self, state: ConsumerState) -> None:
        """Other members may own the partitions by now: they are given up as lost before the member joins again."""
        self._move_to(state)
        self.generation = NO_GENERATION
        self._claim += 1
        self._owned = frozenset()
        self._target = self._told = self._heartbeat = None
        self._is_reconciled = self._must_acknowledge = self._awaits_answer = self._is_hurried = self._may_be_member = False
        self._needs_prepare = True
        self._offer()

    def _offer(self) -> None:
        """Find out what the application has to take over, and which topics of it have no name yet."""
        target = {} if self._target is None else self._target
        self.unknown_topic_ids = frozenset(topic_id for topic_id in target if topic_id not in self._names)
        wanted = self._resolved()
        if self._target is None or self._awaits_answer or (self._is_reconciled and wanted == self._owned):
            self.assigned = None
            return
        partitions: dict[str, list[int]] = {}
        for topic_id, number in sorted(wanted):
            partitions.setdefault(self._names[topic_id], []).append(number)
        topics = {topic_id for topic_id, _ in wanted}
        renewed = frozenset(self._names[topic_id] for topic_id, _ in self._owned if topic_id not in topics)
        self.assigned = Assigned(generation=self.generation, partitions=partitions, renewed=renewed)

    def _targeted(self) -> frozenset[_Owned]:
        """What the coordinator has assigned."""
        return frozenset(_Owned(topic_id, number) for topic_id, numbers in (self._target or {}).items() for number in numbers)

    def _resolved(self) -> frozenset[_Owned]:
        """What of it has a name; the rest is taken over when it has."""
        return frozenset(each for each in self._targeted() if each.topic_id in self._names)

    def _owned_by_topic(self) -> dict[str, list[int]]:
        owned: dict[str, list[int]] = {}
        for topic_id, number in sorted(self._owned):
            owned.setdefault(topic_id, []).append(number)
        return owned

    def _failed(self, now_ms: float, *, is_hopeful: bool) -> None:
        """Count a failure since the last answered heartbeat. `is_hopeful`: the first few are followed by a heartbeat at once."""
        self._failures += 1
        waits = self._failures - _AT_ONCE_MAX if is_hopeful else self._failures
        self._retry_at_ms = now_ms + self._backoff_ms(waits) if waits > 0 else now_ms

    def _move_to(self, state: ConsumerState) -> None:
        if state is not self._state:
            epoch = 0 if self.has_lost_partitions else self.generation
            self._evidence.moved(self.member_id, epoch, self._state.name, state.name)
            self._state = state
