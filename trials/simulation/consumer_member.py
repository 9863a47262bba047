"""A simulated process that runs the membership of `ottla.Consumer`: its application polls, takes partitions over and gives them up.

It takes the place of a scripted member (`member.SimulatedMember`) in the same simulation.
"""

from dataclasses import dataclass
from functools import partial

from ottla.client.membership import values
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import MemberState
from ottla.groups import commands
from ottla.groups.assignors import Assignor
from ottla.groups.assignors import assignors as all_assignors
from ottla.groups.commands import CommitResult, JoinResult, Result
from ottla.history.whatif.requests import command_of, report_result
from ottla.protocol.errors import ErrorCode
from trials.simulation.consumers import MemberKind
from trials.simulation.member import GROUP_ID, MemberConfig, Network

POLL_MS = 600
METADATA_POLLS = 5
"""Metadata is as old as this many polls at most."""
FIND_MS = 20
REQUEST_TIMEOUT_MS = 5_000
COMMIT_MS = 10_000
COMMIT_TIMEOUT_MS = 20_000
"""Longer than a request takes, a repeated one too: the oracle knows the order of commits only while one is on its way."""

PROTOCOLS = (
    (("range",), ("range", "roundrobin"), ("sticky", "range"), ("range", "cooperative-sticky")),
    (("cooperative-sticky",),),
)
"""What the members of a group configure: all share a protocol, in the first groups an eager one, in the second the cooperative one."""


@dataclass(slots=True)
class _Sent:
    """A request on its way."""

    request: values.GroupRequest
    is_over: bool = False


class ConsumerMember:
    """One process. `owned`: the partitions that its application may read now."""

    def __init__(self, config: MemberConfig, network: Network, topics: tuple[str, ...]) -> None:
        self.config = config
        self.topics = topics
        self.owned: dict[str, tuple[int, ...]] = {}
        self.frozen_until_ms = 0
        self.kept_generation = -1
        self.is_alive = True
        self.rejoin_reasons: list[str] = []
        self._network = network
        self._known = all_assignors()
        self._membership: Membership
        self._polls = self._commit_at_ms = 0
        self._wakes = 0

    @property
    def phase(self) -> str:
        """As a scripted member's: "joining", "syncing", "owning" or "gone"."""
        if not self.is_alive:
            return "gone"
        membership = self._membership
        if membership.state is MemberState.STABLE and membership.assigned is None and not membership.needs_rejoin:
            return "owning"
        return "syncing" if membership.state is MemberState.COMPLETING_REBALANCE else "joining"

    @property
    def generation(self) -> int:
        """The generation that it knows."""
        return self._membership.generation

    def join(self) -> None:
        """Start the process, or subscribe again."""
        if not hasattr(self, "_membership"):
            self._start()
        self._membership.subscribe(frozenset(self.topics))
        self._work()

    def leave(self, reason: str | None = None) -> None:
        """Send LeaveGroup and end, whatever the response."""
        self._membership.leave(reason or "the consumer is being closed")
        self._send_all()
        self.crash()

    def crash(self) -> None:
        """End without LeaveGroup."""
        self.is_alive = False
        self.owned = {}

    def _start(self) -> None:
        config = self.config
        settings = values.GroupSettings(
            group_id=GROUP_ID,
            instance_id=config.instance_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_ms,
            # A consumer refuses less: a member that learns of a rebalance too late for its timeout would join every other one.
            max_poll_interval_ms=max(config.rebalance_timeout_ms, config.session_timeout_ms),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        chosen: list[Assignor] = [self._known[name] for name in config.protocols]
        now_ms = self._network.now_ms
        evidence = Evidence(settings, now_ms=now_ms)
        self._membership = Membership(settings, chosen, evidence=evidence, now_ms=now_ms, rng=self._network.random)
        self._poll()

    def _poll(self) -> None:
        """The application's loop."""
        if not self.is_alive:
            return
        membership = self._membership
        if self._polls % METADATA_POLLS == 0:
            membership.on_metadata(self._network.partitions)
        self._polls += 1
        membership.poll(self._network.now_ms)
        failure = membership.take_failure()
        if failure is not None:
            self.crash()
            return
        self._take_over()
        if membership.must_prepare:
            if membership.has_lost_partitions or not membership.is_cooperative:
                self.owned = {}
            self.owned = {topic: numbers for topic, numbers in self.owned.items() if topic in self.topics}
            membership.prepared(self.owned)
        if self.owned and self._network.now_ms >= self._commit_at_ms:
            self._commit()
        self._network.later(POLL_MS, self._poll, self)
        self._work()

    def _take_over(self) -> None:
        assigned = self._membership.assigned
        if assigned is None:
            return
        new = {topic: tuple(numbers) for topic, numbers in assigned.partitions.items()}
        revoked = _pairs(self.owned) - _pairs(new)
        self.owned = new
        self._membership.completed()
        if revoked:
            self._membership.request_rejoin("need to revoke partitions and re-join")

    def _work(self) -> None:
        """Send what is to be sent, and wake when the next timer ends."""
        self._send_all()
        wake_ms = self._membership.next_ms()
        if wake_ms is not None and self.is_alive:
            self._wakes += 1
            self._network.later(max(0, int(wake_ms - self._network.now_ms) + 1), partial(self._wake, self._wakes), self)

    def _wake(self, number: int) -> None:
        if number == self._wakes and self.is_alive:
            self._work()

    def _send_all(self) -> None:
        for request in self._membership.next_requests(self._network.now_ms):
            if isinstance(request, values.FindCoordinator):
                self._network.later(FIND_MS, self._found, self)
            else:
                self._send(request)

    def _found(self) -> None:
        if self.is_alive:
            self._membership.on_coordinator(0, self._network.now_ms)
            self._work()

    def _send(self, request: values.GroupRequest) -> None:
        sent = _Sent(request)

        def on_response(result: Result) -> None:
            if not sent.is_over and self.is_alive:
                sent.is_over = True
                if isinstance(result, JoinResult) and result.skip_assignment:
                    self.kept_generation = result.generation
                report_result(self._membership, request, result, self._network.now_ms)
                self._work()

        def timed_out() -> None:
            if not sent.is_over and self.is_alive:
                sent.is_over = True
                self._membership.on_no_response(request, self._network.now_ms)
                self._work()

        if isinstance(request, values.JoinGroup):
            self.rejoin_reasons.append(request.reason)
        config = self.config
        make = command_of(
            request,
            client_id=config.name,
            client_host="/127.0.0.1",
            new_member_id=lambda: self._network.next_member_id(config.instance_id or config.name),
        )
        self._network.send(self, make, on_response)
        is_join = isinstance(request, values.JoinGroup)
        self._network.later(self._membership.settings.join_timeout_ms if is_join else REQUEST_TIMEOUT_MS, timed_out, self)

    def _commit(self) -> None:
        generation, member_id = self._membership.generation, self._membership.member_id
        offsets = tuple(
            commands.OffsetToCommit(topic=topic, partition=partition, offset=self._network.next_offset(), leader_epoch=-1, metadata=None)
            for topic, partitions in self.owned.items()
            for partition in partitions
        )

        def request(reply_to: int) -> commands.Request:
            return commands.OffsetCommit(
                reply_to=reply_to,
                group_id=GROUP_ID,
                generation=generation,
                member_id=member_id,
                instance_id=self.config.instance_id,
                retention_ms=-1,
                knows_group_errors=True,
                offsets=offsets,
            )

        def on_response(result: Result) -> None:
            assert isinstance(result, CommitResult)
            self._commit_at_ms = self._network.now_ms + COMMIT_MS
            refused = {
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.FENCED_INSTANCE_ID,
            }
            error = next((each for each in result.errors if each in refused), None)
            if error is not None and self.is_alive:
                self._membership.commit_refused(error, generation, member_id, self._network.now_ms)
                self._work()

        if member_id:
            self._commit_at_ms = self._network.now_ms + COMMIT_TIMEOUT_MS
            self._network.send(self, request, on_response)


def _pairs(owned: dict[str, tuple[int, ...]]) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in owned.items() for number in numbers}


CONSUMERS = MemberKind(ConsumerMember, PROTOCOLS, follows_metadata=True, name="consumer")
"""For `simulator.simulate(seed, kind=CONSUMERS)`."""
