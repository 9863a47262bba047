"""A modelled member: one consumer process that acts by the rules of Kafka's clients and knows its group only by the coordinator's replies.

The rules are the Java client's: heartbeats in the background; joining and revoking in `poll`; LeaveGroup when the time between two polls
exceeds max.poll.interval.ms; static members send no LeaveGroup, neither then nor on close. librdkafka and kafka-python do the same.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

from ottla.core.assignors import Subscriber
from ottla.core.errors import ErrorCode
from ottla.core.groups.effects import HeartbeatResult, JoinResult, SyncResult
from ottla.core.model import TopicPartition
from ottla.core.whatif import requests
from ottla.core.whatif.behaviour import Action, ActionKind, Process
from ottla.core.whatif.client_rules import ADMIN, CLOSED, FATAL, FOLLOW_UP, POLL_TIMEOUT, RESUBSCRIBED, RETRY_MS, Phase, stop_times
from ottla.core.whatif.consumer_metadata import encode_subscription
from ottla.core.whatif.environment import Environment
from ottla.core.whatif.partition_stops import partitions_of
from ottla.core.wire.consumer_protocol import parse_assignment

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
            request = requests.heartbeat(self._environment.group_id, self.process, self.member_id, self.generation)
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
            self._leave(POLL_TIMEOUT)
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
        metadata = encode_subscription(self.topics, self.owned, generation=self._claim[1] if self.owned else -1, user_data=version)
        request = requests.join(
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
        if result.error is E.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            self._join(reason)
        elif result.error is not E.NONE:
            self._recover(result.error)
        else:
            self.member_id, self.generation, self.phase = result.member_id, result.generation, Phase.SYNCING
            if result.leader == self.member_id and not result.skip_assignment:
                assignments = self._environment.assign(result)
                self._after(self._environment.sync_delay_ms(), lambda: self._sync(assignments))
            else:
                self._sync(())

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        group_id, name = self._environment.group_id, self._environment.assignor.name
        request = requests.sync(group_id, self.process, self.member_id, self.generation, assignor=name, assignments=assignments)
        self._call(request, self._on_sync)

    def _on_sync(self, result: SyncResult) -> None:
        if result.error is not E.NONE:
            self._recover(result.error)
            return
        before, self.owned = partitions_of(self.owned), dict(parse_assignment(result.assignment))
        self.phase = Phase.OWNING
        self._claim = self.owned, self.generation
        self._hold(partitions_of(self.owned), reads=True)
        if self._environment.assignor.is_cooperative and before - partitions_of(self.owned):
            self.rejoin(FOLLOW_UP)

    def _on_heartbeat(self, result: HeartbeatResult) -> None:
        if result.error is not E.NONE:
            self._recover(result.error)

    def _leave(self, reason: str) -> None:
        if self.member_id:
            self._environment.send(requests.leave(self._environment.group_id, self.process, self.member_id, reason), lambda _: None)

    def _recover(self, error: ErrorCode) -> None:
        if error in FATAL:
            self._end()
        elif error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION):
            self._lose_membership()
            self.phase = Phase.APART
            self.rejoin()
        elif error is E.REBALANCE_IN_PROGRESS:
            self.rejoin()
        else:
            self._after(RETRY_MS, self.rejoin)

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

    def _call(self, request: requests.MakeRequest, receive: Callable[[Any], None]) -> None:
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
