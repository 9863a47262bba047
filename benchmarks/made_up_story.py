"""A day of a made-up group, at any size: silent members that come back, slow ones, rolling deployments, a scale-out, and lag that grows."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.groups.events import EventMember
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.story.arrays import LagHistory
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import DeploymentSpan
from ottla.history.verdicts.verdict import SettingAdvice
from ottla.protocol.model import TopicPartition

TOPICS = (("orders", 0.40), ("payments", 0.22), ("clicks", 0.20), ("refunds", 0.13), ("audit", 0.05))
BEGIN_MS = 1_795_125_600_000
DAY_MS = 86_400_000
STEP_MS = 60_000
SESSION_MS = 10_000


@dataclass
class Group:
    """The members of the group and what they own: as a sticky assignor would have it, or all moved each time."""

    members: int
    partitions: int
    moves_all: bool
    rng: random.Random
    owned: dict[int, list[int]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    known: dict[int, EventMember] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = partition_names(self.partitions)
        for row in range(self.members):
            self.owned[row] = list(range(row, self.partitions, self.members))
            self.starts[row] = 1

    def remove(self, row: int) -> None:
        """The others get what it owned."""
        gone = self.owned.pop(row)
        self.known.pop(row, None)
        for partition in gone:
            least = min(self.owned, key=lambda each: (len(self.owned[each]), each))
            self._give(least, partition)
        self._shuffle()

    def add(self, row: int) -> None:
        """It gets its share from those with the most."""
        self.starts[row] = self.starts.get(row, 0) + 1
        self.owned[row] = []
        for _ in range(self.partitions // len(self.owned)):
            most = max(self.owned, key=lambda each: (len(self.owned[each]), each))
            self.known.pop(most, None)
            self._give(row, self.owned[most].pop())
        self._shuffle()

    def _give(self, row: int, partition: int) -> None:
        self.known.pop(row, None)
        self.owned[row].append(partition)

    def _shuffle(self) -> None:
        if not self.moves_all:
            return
        everything = [partition for owned in self.owned.values() for partition in owned]
        self.rng.shuffle(everything)
        rows = list(self.owned)
        self.owned = {row: everything[at :: len(rows)] for at, row in enumerate(rows)}
        self.known.clear()

    def as_members(self) -> tuple[EventMember, ...]:
        """The members of an assignment."""
        for row in self.owned.keys() - self.known.keys():
            self.known[row] = self._member(row)
        return tuple(self.known[row] for row in sorted(self.owned))

    def _member(self, row: int) -> EventMember:
        assignment: dict[str, list[int]] = {}
        for partition in sorted(self.owned[row]):
            topic, number = self.names[partition]
            assignment.setdefault(topic, []).append(number)
        name = self.name(row)
        return EventMember(
            member_id=name.member_id or "",
            instance_id=None,
            client_id=name.client_id or "",
            client_host=name.client_host or "",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=300_000,
            assignment=assignment,
        )

    def name(self, row: int) -> Identity:
        """A member with the id of its present start."""
        return Identity(f"w-{row:03}-{self.starts[row]:08x}", None, f"w-{row:03}", f"/10.0.{row // 250}.{row % 250}")


def partition_names(count: int) -> list[TopicPartition]:
    """Partitions of the five topics."""
    names = [TopicPartition(topic, number) for topic, share in TOPICS for number in range(max(1, round(count * share)))]
    return names[:count] + [TopicPartition("orders", 100_000 + extra) for extra in range(count - len(names))]


@dataclass(frozen=True)
class Day:
    """What `story` takes."""

    evidence: list[Evidence]
    rebalances: list[StoryRebalance]
    lag: LagHistory
    deployments: list[DeploymentSpan]


def made_up_day(*, rebalances: int = 1_000, members: int = 200, partitions: int = 2_000, moves_all: bool = False, seed: int = 1) -> Day:
    """A day with so many rebalances."""
    rng = random.Random(seed)
    group = Group(members, partitions, moves_all, rng)
    day = _Days(group, rng, rebalances)
    day.play()
    return Day(day.evidence, day.rebalances[:rebalances], _lag(day.rebalances, partitions, rng), day.deployments)


class _Days:
    def __init__(self, group: Group, rng: random.Random, count: int) -> None:
        self.evidence: list[Evidence] = []
        self.rebalances: list[StoryRebalance] = []
        self.deployments: list[DeploymentSpan] = []
        self._group, self._rng, self._count = group, rng, count
        self._generation = 1
        self._ms = BEGIN_MS

    def play(self) -> None:
        """Bursts of trouble, two rolling deployments, single joins; then it ends."""
        self._note(Kind.SYNC_COMPLETED, members=self._group.as_members())
        deployments = {3, 8}
        bursts = 12
        pause = DAY_MS // (bursts + 1)
        for burst in range(bursts):
            self._ms = BEGIN_MS + (burst + 1) * pause - self._rng.randrange(pause // 3)
            goal = self._count * (burst + 1) // bursts
            if burst in deployments:
                self._deploy(goal)
            while len(self.rebalances) < goal:
                self._lose_one() if self._rng.random() < 0.9 else self._unknown()
        self._ms = BEGIN_MS + DAY_MS
        self._note(Kind.LOADED, members=self._group.as_members())

    def _deploy(self, goal: int) -> None:
        from_ms, first = self._ms, len(self.rebalances)
        self._restart_all(goal)
        done = self.rebalances[first:]
        seconds = sum(each.stopped_seconds for each in done)
        self.deployments.append(DeploymentSpan(from_ms, self._ms, len(done) // 2, len(done), seconds))

    def _restart_all(self, goal: int) -> None:
        for row in sorted(self._group.owned):
            if len(self.rebalances) + 1 >= goal:
                return
            name = self._group.name(row)
            before = len(self._group.owned)
            self._group.remove(row)
            self._rebalance("RESTART_DYNAMIC", "LEAVE", name, True, before, sentence=f"{name.label} was stopped for a deployment.")
            self._ms += 2_000
            self._group.add(row)
            after = self._group.name(row)
            self._rebalance("RESTART_DYNAMIC", "JOIN_NEW", after, True, before - 1, sentence=f"{name.label} came back after its restart.")
            self._ms += self._rng.randrange(3_000, 9_000)

    def _lose_one(self) -> None:
        rng = self._rng
        blamed = [row for row in (82, 38, 101, 166, 12, 93, 137, 3, 1, 2) if row in self._group.owned]
        row = blamed[min(int(rng.expovariate(0.6)), len(blamed) - 1)] if rng.random() < 0.9 else rng.choice(sorted(self._group.owned))
        name = self._group.name(row)
        before = len(self._group.owned)
        silent = SESSION_MS + rng.randrange(100, 2_000)
        is_slow = rng.random() < 0.3
        self._ms += silent
        self._group.remove(row)
        if is_slow:
            text = f"{name.label} had not polled for 5 min and left: its work takes longer than max.poll.interval.ms."
            advice = SettingAdvice("max.poll.interval.ms", "480000", "The longest work on one poll took 7 min.")
            self._rebalance("POLL_TIMEOUT", "POLL_TIMEOUT", name, False, before, sentence=text, advice=advice)
        else:
            text = f"{name.label} sent no heartbeat for {silent / 1000:.1f} s (its session is 10 s) and was removed."
            advice = SettingAdvice("session.timeout.ms", "45000", "The longest of these absences took 31 s.")
            self._rebalance("EXPIRE_HEARTBEAT", "EXPIRE_HEARTBEAT", name, False, before, sentence=text, advice=advice, silent_ms=silent)
        self._ms += rng.randrange(4_000, 20_000)
        self._group.add(row)
        self._rebalance(
            "JOIN_NEW", "JOIN_NEW", self._group.name(row), False, before - 1, sentence=f"{name.label} came back.", advice=advice
        )
        self._ms += rng.randrange(1_000, 25_000)

    def _unknown(self) -> None:
        row = self._rng.choice(sorted(self._group.owned))
        text = "A member rejoined; the evidence does not say why."
        self._rebalance("UNKNOWN", "LEADER_REJOIN", self._group.name(row), None, len(self._group.owned), sentence=text)
        self._ms += self._rng.randrange(5_000, 20_000)

    def _rebalance(
        self,
        cause: str,
        trigger: str,
        name: Identity,
        planned: bool | None,
        before: int,
        *,
        sentence: str,
        advice: SettingAdvice | None = None,
        silent_ms: int | None = None,
    ) -> None:
        join_ms, sync_ms = self._rng.randrange(200, 6_000), self._rng.randrange(50, 600)
        is_eager = self._ms < BEGIN_MS + DAY_MS * 6 // 10
        figures = {} if silent_ms is None else {"last_heartbeat_age_ms": silent_ms}
        self._note(Kind.TRIGGER, trigger=trigger, name=name, figures=figures)
        started_ms = self._ms
        self._generation += 1
        self._ms += join_ms
        self._note(Kind.JOIN_COMPLETED, members=self._group.as_members())
        self._ms += sync_ms
        self._note(Kind.SYNC_COMPLETED, members=self._group.as_members(), is_eager=is_eager)
        partitions = self._group.partitions
        moved = partitions if self._group.moves_all else partitions // self._group.members
        self.rebalances.append(
            StoryRebalance(
                started_ms=started_ms,
                join_ms=join_ms,
                sync_ms=sync_ms,
                generation=self._generation,
                cause=cause,
                candidates=("SUBSCRIPTION", "LEADER_REJOIN_SPURIOUS", "COOP_FOLLOWUP") if planned is None else (cause,),
                confidence="low" if planned is None else "high",
                planned=planned,
                avoidable=None if planned is None else not planned,
                member=name,
                silent_ms=silent_ms,
                is_eager=is_eager,
                members_before=before,
                members_after=len(self._group.owned),
                stopped=partitions if is_eager else moved,
                stopped_ms=join_ms + sync_ms,
                moved=moved,
                new=0,
                messages_in=self._rng.randrange(100, 90_000),
                sentence=sentence,
                evidence=(f"join took {join_ms} ms, sync {sync_ms} ms", *(f"{key} = {value:,}" for key, value in figures.items())),
                advice=() if advice is None else (advice,),
                sharper="the client's log" if planned is None else None,
            )
        )

    def _note(
        self,
        kind: Kind,
        *,
        members: tuple[EventMember, ...] | None = None,
        trigger: str | None = None,
        name: Identity | None = None,
        figures: dict[str, int] | None = None,
        is_eager: bool = True,
    ) -> None:
        self.evidence.append(
            Evidence(
                at_ms=self._ms,
                source=Source.GROUP_EVENTS,
                clock="broker",
                kind=kind,
                group="orders-enrichment",
                generation=self._generation,
                trigger=trigger,
                member_id=name and name.member_id,
                client_id=name and name.client_id,
                client_host=name and name.client_host,
                protocol="sticky" if is_eager else "cooperative-sticky",
                members=members,
                evidence=figures or {},
            )
        )


def _lag(rebalances: list[StoryRebalance], partitions: int, rng: random.Random) -> LagHistory:
    """Samples each minute: a little noise, and more where rebalances stood in the way."""
    count = DAY_MS // STEP_MS
    stopped = [0.0] * (count + 1)
    for each in rebalances:
        stopped[min(count, (each.started_ms - BEGIN_MS) // STEP_MS)] += (each.stopped_ms or 0) / 1000
    rows = {name: list(_samples(stopped, count, rng)) for name in partition_names(partitions)}
    return LagHistory(BEGIN_MS, STEP_MS, rows)


def _samples(stopped: list[float], count: int, rng: random.Random) -> Iterator[int]:
    rate = 20 + rng.paretovariate(1.2) * 60
    behind = 0.0
    for at in range(count):
        behind = max(0.0, behind * 0.55 + stopped[at] * rate)
        yield int(behind + rng.random() * rate)
