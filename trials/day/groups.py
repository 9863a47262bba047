"""The groups of a day: which members of which clients, and what is known of them."""

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ottla.history.sources.evidence import Cause
from trials.day.members import Member
from trials.day.world import World
from trials.incidents.members.program import LOG_FORMATS, MemberSettings

CONFLUENT, AIOKAFKA, KAFKA_PYTHON, OTTLA = "confluent", "aiokafka", "kafka-python", "ottla"
ALL: Final = (CONFLUENT, AIOKAFKA, KAFKA_PYTHON, OTTLA)
SANE: Final = (CONFLUENT, KAFKA_PYTHON, OTTLA)
"""Clients that join once however many assignors they have: aiokafka 0.13 sends a JoinGroup for each, and two of its members never rest."""
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 6_000, 1_000, 9_000
SKEW_S, SKEWED = 30, 2
SETTLED_S: Final = 1.0
REJOINING: Final = frozenset({KAFKA_PYTHON, CONFLUENT})
"""Clients whose leader sometimes joins again right after a rebalance, with nothing changed."""


class Kind(NamedTuple):
    """What a group is like."""

    name: str
    clients: tuple[str, ...]
    assignors: tuple[str, ...] = ("range",)
    protocol: str = "classic"
    is_static: bool = False
    has_pattern: bool = False


KINDS: Final = (
    Kind("orders", ALL),
    Kind("billing", SANE, ("range", "roundrobin")),
    Kind("clicks", (CONFLUENT, KAFKA_PYTHON), ("cooperative-sticky",)),
    Kind("stock", SANE, ("range", "roundrobin"), is_static=True),
    Kind("search", ALL, has_pattern=True),
    Kind("audit", (CONFLUENT,), protocol="consumer"),
    Kind("fraud", (CONFLUENT,), protocol="consumer", is_static=True),
)


class Group:
    """One group: its members by name, those that are away included; which of them an action has now."""

    def __init__(self, kind: Kind, world: World, rng: random.Random) -> None:
        self.kind = kind
        self.name = kind.name
        self.world = world
        self.is_classic = kind.protocol == "classic"
        self.topics = {f"{kind.name}.events": rng.randint(6, 10)}
        self.members: dict[str, Member] = {}
        self.taken: set[str] = set()
        self.actions = 0
        self._rng = rng
        self._numbers = 0

    def new_member(self, client: str | None = None, **changes: Any) -> Member:
        """One more member, not started."""
        self._numbers += 1
        client = client or self._rng.choice(self.kind.clients)
        name = f"{self.name}-{self._numbers}"
        is_behind_proxy = self._rng.random() < 0.3
        settings = MemberSettings(
            name=name,
            client=client,
            servers=self.world.proxy.servers if is_behind_proxy else self.world.servers,
            group=self.name,
            topics=() if self.kind.has_pattern else tuple(self.topics),
            pattern=rf"{self.name}\..*" if self.kind.has_pattern else None,
            assignors=self.kind.assignors,
            protocol=self.kind.protocol,
            session_ms=SESSION_MS,
            heartbeat_ms=HEARTBEAT_MS,
            max_poll_ms=MAX_POLL_MS,
            client_id=name,
            instance_id=name if self.kind.is_static else None,
            log_format=self._rng.randrange(len(LOG_FORMATS)),
        )
        member = Member(replace(settings, **changes), self.world.directory, is_behind_proxy=is_behind_proxy)
        self.members[name] = member
        return member

    def present(self, *clients: str) -> list[Member]:
        """Members that run and that no action has, of these clients, or of all."""
        return [
            member
            for member in self.members.values()
            if member.is_wanted and member.is_running and member.name not in self.taken and member.settings.client in (clients or ALL)
        ]

    def habits(self) -> tuple[str, ...]:
        """What the group's clients do after any rebalance: a second half, a needless rejoin of the leader."""
        clients = {member.settings.client for member in self.members.values()}
        habits = []
        if "cooperative-sticky" in self.kind.assignors:
            habits.append(Cause.COOP_FOLLOWUP)
        if self.is_classic and not REJOINING.isdisjoint(clients):
            habits.append(Cause.LEADER_REJOIN_SPURIOUS)
        return tuple(habits)

    def wait_until_divided(self, seconds_max: float = 12.0, *, without: Collection[Member] = ()) -> bool:
        """Until the members own each partition once, and that has been so for a second; whether it came to that."""
        everything = sorted(f"{topic}-{number}" for topic, count in self.topics.items() for number in range(count))
        deadline = since_s = time.monotonic()
        deadline += seconds_max
        before: Sequence[list[str]] = []
        while time.monotonic() < deadline:
            members = [member for member in list(self.members.values()) if member.is_wanted and member not in without]
            owned = [member.assignment() for member in members]
            if owned != before:
                since_s, before = time.monotonic(), owned
            is_divided = sorted(name for names in owned for name in names) == everything
            if is_divided and time.monotonic() - since_s >= SETTLED_S:
                return True
            time.sleep(0.2)
        return False


def make_groups(world: World, rng: random.Random, *, has_consumer_protocol: bool) -> list[Group]:
    """The groups of a day with their first members, not started: 15 to 30 in all."""
    groups = []
    for kind in KINDS:
        if kind.protocol == "classic" or has_consumer_protocol:
            group = Group(kind, world, rng)
            for _ in range(rng.randint(3, 4)):
                group.new_member()
            groups.append(group)
    # librdkafka writes its log's times itself.
    others = [member for group in groups for member in group.members.values() if member.settings.client != CONFLUENT]
    for member in rng.sample(others, SKEWED):
        member.skew_s = rng.choice((-SKEW_S, SKEW_S))
    return groups
