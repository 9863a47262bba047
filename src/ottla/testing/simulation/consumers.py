"""The members of a simulated group, and the unreliable network between them and the broker."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.core.groups.commands import Request
from ottla.core.groups.effects import Result
from ottla.testing.simulation.conditions import Conditions
from ottla.testing.simulation.member import MemberConfig, Network, Process, SimulatedMember
from ottla.testing.simulation.simulated_broker import SimulatedBroker

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
