"""Simulated groups: members, an unreliable network, a failing broker and a virtual clock, all from a seed; one seed alone is traced.

Every choice comes from `random.Random(seed)`, so the same seed gives the same run, command for command (its `trace_hash`). The
oracle checks the invariants. Faults are injected for some time; then the group must recover: every running member owns its partitions,
and no request is open.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.groups.classic.states import GroupState
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.simulation.consumer_member import CONSUMERS
from trials.simulation.consumers import MEMBERS_MAX, SCRIPTED, Consumers, Faults, MemberKind
from trials.simulation.member import GROUP_ID
from trials.simulation.oracle import InvariantBroken
from trials.simulation.simulated_broker import EXPIRY_INTERVAL_MS, Conditions, SimulatedBroker, Trace

NAME = "simulation"
FAULTS_MS = 120_000
RECOVERY_MS_MAX = 600_000
"""The time to recover, longer than all timeouts of the protocol together."""
STEPS_MAX = 100_000
RETENTIONS_MS = (5_000, 20_000, 7 * 24 * 60 * 60 * 1000)
KINDS = {kind.name: kind for kind in (SCRIPTED, CONSUMERS)}
MakeCoordinator = Callable[[GroupSettings], GroupCoordinator]


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The outcome of one run; equal for equal seeds."""

    seed: int
    steps: int
    generations: int
    records: int
    restarts: int
    expirations: int
    """Tombstones of expired offsets and groups."""
    causes: tuple[str, ...]
    """Every published trigger cause."""
    trace_hash: str


class SimulationFailed(AssertionError):
    """A seed that violates an invariant; the text says how to run it again."""


class Simulation:
    """One run. `report` gets every line of its trace."""

    def __init__(
        self,
        seed: int,
        *,
        make: MakeCoordinator = GroupCoordinator,
        kind: MemberKind = SCRIPTED,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self._kind = kind
        rng = random.Random(seed)
        self._settings = GroupSettings(
            group_initial_rebalance_delay_ms=rng.choice((0, 0, 500)), offsets_retention_ms=rng.choice(RETENTIONS_MS)
        )
        shares_appends = rng.random() < 0.5
        self._rng = rng
        self._conditions = Conditions(rng)
        self._events = self._conditions.events
        self._trace = Trace(self._events, report)
        shell = CoordinatorShell(lambda: make(self._settings))
        self._broker = SimulatedBroker(shell, self._conditions, self._trace, shares_appends=shares_appends)
        protocols = random.Random(f"protocols {seed}").choice(kind.protocols)
        self.consumers = Consumers(self._conditions, self._broker, make=kind.make, protocols=protocols)
        clock_rng = random.Random(f"clock {seed}")
        self._faults = Faults(self._conditions, self._broker, self.consumers, self._trace, clock_rng=clock_rng)

    def run(self) -> SimulationOutcome:
        """Run it; raises SimulationFailed if an invariant is violated."""
        try:
            self._simulate()
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            more, option = ("", "") if self._kind is SCRIPTED else (f" MEMBERS={self._kind.name}", f"--members {self._kind.name} ")
            again = f"make sim SEED={self.seed}{more}, or python -m trials {NAME} {option}--seed {self.seed}"
            raise SimulationFailed(f"seed {self.seed}, at {self._events.now_ms} ms: {error!r}; run it again: {again}") from error
        groups = self._broker.shell.stored.group_metadata
        return SimulationOutcome(
            seed=self.seed,
            steps=self._broker.steps,
            generations=groups[GROUP_ID].generation if GROUP_ID in groups else 0,
            records=len(self._broker.shell.log),
            restarts=self._broker.restarts,
            expirations=self._broker.expirations,
            causes=tuple(sorted(self._trace.causes)),
            trace_hash=self._trace.hexdigest(),
        )

    def _simulate(self) -> None:
        self._broker.start()
        for number in range(self._rng.randint(1, MEMBERS_MAX)):
            self._events.later(self._rng.randrange(3_000), lambda number=number: self.consumers.add(number))  # type: ignore[misc]
        self._events.later(self._rng.randrange(2_000), self._faults.inject)
        self._events.later(EXPIRY_INTERVAL_MS, self._broker.expire)
        if self._settings.offsets_retention_ms > FAULTS_MS:
            # Retention counts by the time of day: the oracle knows which offsets must stay only if none expires within hours.
            self._faults.jump_clock_later()
        self._run_until(FAULTS_MS, lambda: False)
        self._conditions.has_faults = False
        for member in self.consumers.members:
            member.frozen_until_ms = min(member.frozen_until_ms, self._events.now_ms)
        if not self._broker.is_up:
            self._broker.start()
        self._run_until(self._events.now_ms + RECOVERY_MS_MAX, self._has_recovered)
        if not self._has_recovered():
            raise InvariantBroken(f"the group does not recover: {self._describe()}")
        owned = [(topic, number) for each in self.consumers.alive for topic in each.owned for number in each.owned[topic]]
        if len(owned) != len(set(owned)):
            raise InvariantBroken(f"two members own a partition: {self._describe()}")

    def _run_until(self, end_ms: int, done: Callable[[], bool]) -> None:
        self._events.run_until(end_ms, lambda: self._broker.steps >= STEPS_MAX or done())

    def _has_recovered(self) -> bool:
        alive = self.consumers.alive
        group = self._broker.shell.groups.get(GROUP_ID)
        if group is None:
            return not alive
        if any(member.phase != "owning" or member.generation != group.generation for member in alive):
            return False
        # By name: a dead member whose session lasts and a process that is fenced soon would make the count right.
        if sorted(each.client_id for each in group.members.values()) != sorted(each.config.name for each in alive):
            return False
        if self._broker.oracle.open_requests():
            return False
        if self._kind.follows_metadata and all(each.kept_generation != group.generation for each in alive) and self._unowned():
            return False
        return group.state is (GroupState.STABLE if alive else GroupState.EMPTY)

    def _unowned(self) -> set[tuple[str, int]]:
        """Partitions of subscribed topics that no member owns.

        A static member that returns with other topics keeps its assignment, as in Kafka: the coordinator does not count the new ones. Nor
        does a static leader that returns see what changed while it was away, so that its generation is not checked.
        """
        group = self._broker.shell.groups.get(GROUP_ID)
        counted = frozenset() if group is None else group.subscribed_topics or frozenset()
        topics = {topic for each in self.consumers.alive for topic in each.topics} & counted
        wanted = {(topic, number) for topic in topics for number in range(self.consumers.partitions[topic])}
        return wanted - {(topic, number) for each in self.consumers.alive for topic in each.owned for number in each.owned[topic]}

    def _describe(self) -> str:
        members = ", ".join(f"{each.config.name} {each.phase} gen={each.generation}" for each in self.consumers.alive)
        return f"{members}; without an owner: {sorted(self._unowned())}; {self._broker.shell.coordinator.snapshot().groups}"


def simulate(
    seed: int, *, make: MakeCoordinator = GroupCoordinator, kind: MemberKind = SCRIPTED, report: Callable[[str], None] | None = None
) -> SimulationOutcome:
    """Run one seed; raises SimulationFailed if an invariant is violated."""
    return Simulation(seed, make=make, kind=kind, report=report).run()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which seeds, and what runs in the processes of the members."""
    parser.add_argument("--members", choices=KINDS, default=SCRIPTED.name, help=f"(default: {SCRIPTED.name})")
    add_seed_option(parser, "0-99")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run the seeds; a single one reports every command."""
    report = results.say if len(options.seed) == 1 else None

    def run_one(seed: int, _directory: Path) -> Outcome:
        try:
            return Outcome([], str(simulate(seed, kind=KINDS[options.members], report=report)))
        except SimulationFailed as failure:
            return Outcome([str(failure)])

    results.run_seeds(options.seed, run_one)
