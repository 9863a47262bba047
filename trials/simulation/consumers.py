"""The members of a simulated group, the unreliable network between them and the broker, and what goes wrong with all of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

from ottla.groups.commands import DeleteGroup, OffsetCommit, OffsetFetch, OffsetToCommit, Request, Result
from trials.simulation.member import GROUP_ID, MemberConfig, Network, Process, SimulatedMember
from trials.simulation.simulated_broker import Conditions, SimulatedBroker, Trace

MEMBERS_MAX = 12
PROTOCOLS = (("range",), ("range", "other"), ("other", "range"))
"""All members support `range`, so that they can always be in one group."""


class MemberKind(NamedTuple):
    """What runs in the processes. `protocols`: for each kind of group what a member may configure.

    `follows_metadata`: whether members notice new partitions by themselves, so that in the end all partitions have an owner.
    """

    make: Callable[[MemberConfig, Network, tuple[str, ...]], Process]
    protocols: tuple[tuple[tuple[str, ...], ...], ...]
    follows_metadata: bool
    name: str


SCRIPTED = MemberKind(SimulatedMember, (PROTOCOLS,), follows_metadata=False, name="scripted")


class Consumers:
    """All processes that a run started, dead ones too; to each it is the network (protocol: `member.Network`)."""

    def __init__(
        self,
        conditions: Conditions,
        broker: SimulatedBroker,
        *,
        make: Callable[[MemberConfig, Network, tuple[str, ...]], Process] = SimulatedMember,
        protocols: tuple[tuple[str, ...], ...] = PROTOCOLS,
    ) -> None:
        self.partitions: Mapping[str, int] = {"flights": 6, "weather": 3}
        self.members: list[Process] = []
        self.protocols = protocols
        self._make = make
        self._conditions = conditions
        self._rng = conditions.rng
        self._broker = broker
        self._offset = self._member_ids = 0

    @property
    def alive(self) -> list[Process]:
        """The processes that run."""
        return [member for member in self.members if member.is_alive]

    def add(self, number: int) -> None:
        """Start a member with a random configuration; `number` names it."""
        old = self._rng.random() < 0.2
        config = MemberConfig(
            name=f"c{number}",
            instance_id=f"i{number}" if self._rng.random() < 0.4 else None,
            session_timeout_ms=self._rng.choice((6_000, 8_000)),
            rebalance_timeout_ms=self._rng.choice((3_000, 8_000)),
            heartbeat_ms=self._rng.choice((2_000, 3_000)),
            is_old_client=old,
            protocols=self._rng.choice(self.protocols),
        )
        self.start_process(config)

    def start_process(self, config: MemberConfig) -> None:
        """Start a process with this configuration, unless there are MEMBERS_MAX already."""
        if len(self.alive) == MEMBERS_MAX:
            return
        topics = self._rng.choice((("flights",), ("flights", "weather")))
        member = self._make(config, self, topics)
        self.members.append(member)
        member.join()

    @property
    def now_ms(self) -> int:
        """The virtual time."""
        return self._conditions.events.now_ms

    def random(self) -> float:
        """A number from 0 to 1."""
        return self._rng.random()

    def send(self, member: Process, request: Callable[[int], Request], on_response: Callable[[Result], None]) -> None:
        """Deliver a request to the broker: in time, late, twice or never."""
        for _ in range(2 if self._conditions.chance(0.02) else 1):
            if self._conditions.chance(0.02):
                continue
            reply_to = self._broker.expect_reply(lambda result: self._deliver_response(member, on_response, result))
            command = request(reply_to)
            self.later(self._conditions.latency_ms(), lambda command=command: self._broker.deliver(command))  # type: ignore[misc]

    def later(self, delay_ms: int, act: Callable[[], None], member: Process | None = None) -> None:
        """Call `act` after `delay_ms`; if `member` is frozen then, when it continues."""
        self._conditions.events.later(delay_ms, act, member)

    def next_offset(self) -> int:
        """An offset larger than all earlier ones."""
        self._offset += 1
        return self._offset

    def next_member_id(self, name: str) -> str:
        """A new member id."""
        self._member_ids += 1
        return f"{name}-{self._member_ids}"

    def _deliver_response(self, member: Process, on_response: Callable[[Result], None], result: Result) -> None:
        if not self._conditions.chance(0.02):
            self.later(self._conditions.latency_ms(), lambda: on_response(result) if member.is_alive else None, member)


LEAVE_REASONS = (None, "the consumer is being closed", "consumer poll timeout has expired.", "member was removed by an admin")
STANDALONE = "standalone"
CLOCK_JUMPS_AFTER_MS_MAX = 60_000
HOUR_MS = 60 * 60 * 1000


class Faults:
    """Injects faults at random times, as long as the conditions have them. `clock_rng`: for jumps of the time of day."""

    def __init__(self, conditions: Conditions, broker: SimulatedBroker, consumers: Consumers, trace: Trace, *, clock_rng: Random) -> None:
        self._conditions = conditions
        self._rng = conditions.rng
        self._events = conditions.events
        self._broker = broker
        self._consumers = consumers
        self._trace = trace
        self._clock_rng = clock_rng

    def inject(self) -> None:
        """Inject a random fault, and schedule the next one while faults are enabled."""
        if not self._conditions.has_faults:
            return
        alive = self._consumers.alive
        what = self._rng.choice(("freeze", "freeze", "crash", "leave", "join", "twin", "topics", "grow", "broker", "move", "standalone"))
        member = self._rng.choice(alive) if alive else None
        self._trace.line(f"fault: {what} {member.config.name if member else ''}")
        if what == "broker":
            self._broker.stop()
        elif what == "move":
            self._broker.move_coordinator()
        elif what == "standalone":
            self._standalone()
        elif what == "grow":
            topic = self._rng.choice(("flights", "weather"))
            self._consumers.partitions = {**self._consumers.partitions, topic: self._consumers.partitions[topic] + 1}
        elif what == "join":
            self._consumers.add(100 + self._events.scheduled)
        elif member is not None:
            self._disturb(member, what)
        self._events.later(self._rng.randrange(500, 8_000), self.inject)

    def jump_clock_later(self) -> None:
        """Schedule the next jump of the clock."""
        self._events.later(self._clock_rng.randrange(CLOCK_JUMPS_AFTER_MS_MAX), self._jump_clock)

    def _jump_clock(self) -> None:
        """Set the time of day forward or back, which must not affect timers."""
        if self._conditions.has_faults:
            self._broker.shell.time_of_day_offset_ms += self._clock_rng.choice((-HOUR_MS, HOUR_MS))
            self._trace.line(f"the time of day is {self._broker.shell.time_of_day_offset_ms} ms ahead")
            self.jump_clock_later()

    def _disturb(self, member: Process, what: str) -> None:
        if what == "freeze":
            member.frozen_until_ms = self._events.now_ms + self._rng.randrange(1_000, 15_000)
        elif what == "leave":
            member.leave(self._rng.choice(LEAVE_REASONS))
        elif what == "topics":
            member.topics = ("flights",) if len(member.topics) > 1 else ("flights", "weather")
            member.config = replace(member.config, protocols=self._rng.choice(self._consumers.protocols))
            member.join()
        elif what == "twin" and member.config.instance_id is not None:
            self._consumers.start_process(member.config)
        elif what in ("crash", "twin"):
            member.crash()
            if self._rng.random() < 0.7:
                self._events.later(self._rng.randrange(10_000), lambda: self._consumers.start_process(member.config))

    def _standalone(self) -> None:
        """A consumer that is not a member commits and fetches; sometimes its group is deleted."""
        offset = OffsetToCommit(topic="flights", partition=0, offset=self._consumers.next_offset(), leader_epoch=-1, metadata=None)
        requests: list[Request] = [
            OffsetCommit(
                reply_to=0,
                group_id=STANDALONE,
                generation=-1,
                member_id="",
                instance_id=None,
                retention_ms=-1,
                knows_group_errors=True,
                offsets=(offset,),
            ),
            OffsetFetch(reply_to=0, group_id=STANDALONE, topics=None, require_stable=False),
            OffsetFetch(reply_to=0, group_id=GROUP_ID, topics=None, require_stable=False),
        ]
        if self._conditions.chance(0.3):
            requests.append(DeleteGroup(reply_to=0, group_id=STANDALONE))
        for request in requests:
            self._broker.deliver(replace(request, reply_to=self._broker.expect_reply()))
