"""A group coordinator's life in a hostile world, from one seed: members, a network, a broker that fails, a clock that nobody waits for.

    python -m ottla.testing.simulator 123          tells every step of one seed
    python -m ottla.testing.simulator 1 2 3        tells how each ended; without seeds, the first hundred

Every choice comes from `random.Random(seed)`, so the same seed is the same life, step for step (`Outcome.trace_hash`). Invariants are
the oracle's (sim_oracle); here is only what happens to whom. After the bad times come good ones, in which the group must come to
rest: every member that lives owns its part of everything, and nobody is left waiting.
"""

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import heappop, heappush

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import (
    Command,
    DeleteGroup,
    ExpireOffsets,
    FinishLoading,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    Request,
    Resign,
)
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.effects import Effects, Result
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.states import GroupState
from ottla.testing.scenario_effects import render_effects
from ottla.testing.sim_client import GROUP_ID, Habits, SimMember
from ottla.testing.sim_oracle import InvariantBroken, Oracle
from ottla.testing.sim_shell import CoordinatorShell

MEMBERS_MAX = 12
BAD_TIMES_MS = 120_000
GOOD_TIMES_MS_MAX = 600_000
"""Long enough for every timeout of the protocol, one after the other."""
STEPS_MAX = 100_000
APPEND_ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)
LEAVE_REASONS = (None, "the consumer is being closed", "consumer poll timeout has expired.", "member was removed by an admin")
PROTOCOLS = (("range",), ("range", "other"), ("other", "range"))
"""All members know `range`, so that they can always be in one group."""
STANDALONE = "standalone"
RETENTIONS_MS = (5_000, 20_000, 7 * 24 * 60 * 60 * 1000)
EXPIRY_INTERVAL_MS = 3_000
CLOCK_JUMPS_AFTER_MS_MAX = 60_000
HOUR_MS = 60 * 60 * 1000
Make = Callable[[GroupSettings], Coordinator]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one life went; equal for equal seeds."""

    seed: int
    steps: int
    generations: int
    records: int
    restarts: int
    expirations: int
    """Tombstones of what was too old."""
    causes: tuple[str, ...]
    """Every trigger code that was told."""
    trace_hash: str


class SimulationFailed(AssertionError):
    """A seed under which something happened that must not; the text says how to run it again."""


class Simulation:
    """One life. `tell` gets every line of its story."""

    def __init__(self, seed: int, *, make: Make = Coordinator, tell: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.now_ms = 0
        self.partitions: Mapping[str, int] = {"flights": 6, "weather": 3}
        self._dice = random.Random(seed)
        self._clock_dice = random.Random(f"clock {seed}")
        settings = GroupSettings(
            group_initial_rebalance_delay_ms=self._dice.choice((0, 0, 500)), offsets_retention_ms=self._dice.choice(RETENTIONS_MS)
        )
        self._shares_appends = self._dice.random() < 0.5
        self._shell = CoordinatorShell(lambda: make(settings))
        self._oracle = Oracle(self._shell)
        self._tell = tell
        self._trace = blake2b(digest_size=16)
        self._happenings: list[tuple[int, int, Callable[[], None], SimMember | None]] = []
        self._sequence = self._offset = self._reply_to = self._member_ids = 0
        self._answers: dict[int, Callable[[Result], None]] = {}
        self._members: list[SimMember] = []
        self._alarm_at_ms: int | None = None
        self._bad_times = True
        self._up = False
        self._steps = self._restarts = self._expirations = 0
        self._causes: set[str] = set()

    def run(self) -> Outcome:
        """Live it; SimulationFailed when an invariant breaks."""
        try:
            self._live()
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            again = f"make sim SEED={self.seed}, or python -m ottla.testing.simulator {self.seed}"
            raise SimulationFailed(f"seed {self.seed}, at {self.now_ms} ms: {error!r}; run it again: {again}") from error
        groups = self._shell.stored.registrations
        return Outcome(
            seed=self.seed,
            steps=self._steps,
            generations=groups[GROUP_ID].generation if GROUP_ID in groups else 0,
            records=len(self._shell.log),
            restarts=self._restarts,
            expirations=self._expirations,
            causes=tuple(sorted(self._causes)),
            trace_hash=self._trace.hexdigest(),
        )

    # What members see: sim_client.Network

    def send(self, member: SimMember, request: Callable[[int], Request], answered: Callable[[Result], None]) -> None:
        """Bring a request to the broker: in time, late, twice or never."""
        for _ in range(2 if self._chance(0.02) else 1):
            if self._chance(0.02):
                continue
            self._reply_to += 1
            command = request(self._reply_to)
            self._answers[self._reply_to] = lambda result: self._bring_back(member, answered, result)
            self.later(self._travel_ms(), lambda command=command: self._arrive(command))  # type: ignore[misc]

    def later(self, delay_ms: int, act: Callable[[], None], member: SimMember | None = None) -> None:
        """Let something happen after some time; to a frozen `member` it happens when it thaws."""
        self._sequence += 1
        heappush(self._happenings, (self.now_ms + delay_ms, self._sequence, act, member))

    def next_offset(self) -> int:
        """An offset larger than all before."""
        self._offset += 1
        return self._offset

    def next_member_id(self, name: str) -> str:
        """A member id that nobody had."""
        self._member_ids += 1
        return f"{name}-{self._member_ids}"

    # The course of events

    def _live(self) -> None:
        self._start_broker()
        for number in range(self._dice.randint(1, MEMBERS_MAX)):
            self.later(self._dice.randrange(3_000), lambda number=number: self._add_member(number))  # type: ignore[misc]
        self.later(self._dice.randrange(2_000), self._bad_luck)
        self.later(EXPIRY_INTERVAL_MS, self._expire)
        if self._shell.coordinator.registry.settings.offsets_retention_ms > BAD_TIMES_MS:
            # Offsets grow old by the time of day: only where none does within hours is it known what must stay.
            self.later(self._clock_dice.randrange(CLOCK_JUMPS_AFTER_MS_MAX), self._jump_clock)
        self._until(BAD_TIMES_MS, lambda: False)
        self._bad_times = False
        for member in self._members:
            member.frozen_until_ms = min(member.frozen_until_ms, self.now_ms)
        if not self._up:
            self._start_broker()
        self._until(self.now_ms + GOOD_TIMES_MS_MAX, self._at_rest)
        if not self._at_rest():
            raise InvariantBroken(f"the group does not come to rest: {self._describe()}")
        owned = [(topic, number) for each in self._members if each.alive for topic in each.owned for number in each.owned[topic]]
        if len(owned) != len(set(owned)):
            raise InvariantBroken(f"two members own a partition: {self._describe()}")

    def _until(self, end_ms: int, done: Callable[[], bool]) -> None:
        while self._happenings and self._happenings[0][0] <= end_ms and self._steps < STEPS_MAX and not done():
            self.now_ms, _, act, member = heappop(self._happenings)
            if member is None or member.frozen_until_ms <= self.now_ms:
                act()
            else:
                self.later(member.frozen_until_ms - self.now_ms, act, member)

    def _at_rest(self) -> bool:
        alive = [member for member in self._members if member.alive]
        group = self._shell.coordinator.registry.groups.get(GROUP_ID)
        if group is None:
            return not alive
        if any(member.phase != "owning" or member.generation != group.generation for member in alive):
            return False
        if len(group.members) != len(alive) or self._oracle.unanswered():
            return False
        return group.state is (GroupState.STABLE if alive else GroupState.EMPTY)

    def _describe(self) -> str:
        members = ", ".join(f"{each.habits.name} {each.phase} gen={each.generation}" for each in self._members if each.alive)
        return f"{members}; {self._shell.coordinator.view().groups}"

    # Members

    def _add_member(self, number: int) -> None:
        old = self._dice.random() < 0.2
        habits = Habits(
            name=f"c{number}",
            instance_id=f"i{number}" if self._dice.random() < 0.4 else None,
            session_timeout_ms=self._dice.choice((6_000, 8_000)),
            rebalance_timeout_ms=self._dice.choice((3_000, 8_000)),
            heartbeat_ms=self._dice.choice((2_000, 3_000)),
            old=old,
            protocols=self._dice.choice(PROTOCOLS),
        )
        self._start_process(habits)

    def _start_process(self, habits: Habits) -> None:
        if len([member for member in self._members if member.alive]) == MEMBERS_MAX:
            return
        topics = self._dice.choice((("flights",), ("flights", "weather")))
        member = SimMember(habits, self, topics)
        self._members.append(member)
        member.join()

    def _bad_luck(self) -> None:
        """Something goes wrong somewhere, now and again, as long as times are bad."""
        if not self._bad_times:
            return
        alive = [member for member in self._members if member.alive]
        what = self._dice.choice(("freeze", "freeze", "crash", "leave", "join", "twin", "topics", "grow", "broker", "move", "standalone"))
        member = self._dice.choice(alive) if alive else None
        self._say(f"bad luck: {what} {member.habits.name if member else ''}")
        if what == "broker":
            self._stop_broker()
        elif what == "move":
            self._move_coordinator()
        elif what == "standalone":
            self._standalone()
        elif what == "grow":
            topic = self._dice.choice(("flights", "weather"))
            self.partitions = {**self.partitions, topic: self.partitions[topic] + 1}
        elif what == "join":
            self._add_member(100 + self._sequence)
        elif member is not None:
            self._befall(member, what)
        self.later(self._dice.randrange(500, 8_000), self._bad_luck)

    def _jump_clock(self) -> None:
        """The time of day is set, forward or back; no timer may notice."""
        if self._bad_times:
            self._shell.time_of_day_offset_ms += self._clock_dice.choice((-HOUR_MS, HOUR_MS))
            self._say(f"the time of day is {self._shell.time_of_day_offset_ms} ms ahead")
            self.later(self._clock_dice.randrange(CLOCK_JUMPS_AFTER_MS_MAX), self._jump_clock)

    def _befall(self, member: SimMember, what: str) -> None:
        if what == "freeze":
            member.frozen_until_ms = self.now_ms + self._dice.randrange(1_000, 15_000)
        elif what == "leave":
            member.leave(self._dice.choice(LEAVE_REASONS))
        elif what == "topics":
            member.topics = ("flights",) if len(member.topics) > 1 else ("flights", "weather")
            member.habits = replace(member.habits, protocols=self._dice.choice(PROTOCOLS))
            member.join()
        elif what == "twin" and member.habits.instance_id is not None:
            self._start_process(member.habits)
        elif what in ("crash", "twin"):
            member.die()
            if self._dice.random() < 0.7:
                self.later(self._dice.randrange(10_000), lambda: self._start_process(member.habits))

    def _standalone(self) -> None:
        """A consumer without a group commits, reads, and now and then has its group deleted."""
        offset = OffsetToCommit(topic="flights", partition=0, offset=self.next_offset(), leader_epoch=-1, metadata=None)
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
        if self._chance(0.3):
            requests.append(DeleteGroup(reply_to=0, group_id=STANDALONE))
        for request in requests:
            self._reply_to += 1
            self._arrive(replace(request, reply_to=self._reply_to))

    # The broker

    def _start_broker(self) -> None:
        self._up = True
        if self._chance(0.3):
            self._shell.compact(keep_tombstones=self._dice.random() < 0.5)
        self._shell.begin_loading()
        self._oracle.restarted()
        self.later(self._dice.choice((0, 0, 300, 2_000)) if self._bad_times else 0, self._finish_loading)

    def _finish_loading(self) -> None:
        if self._up and self._shell.coordinator.status.value == "loading":
            self._step(FinishLoading())

    def _stop_broker(self) -> None:
        """The broker is killed; everything but its log is gone."""
        if self._up:
            self._up = False
            self._restarts += 1
            self._answers.clear()
            self.later(self._dice.randrange(100, 9_000), self._start_again)

    def _start_again(self) -> None:
        if not self._up:
            self._start_broker()

    def _move_coordinator(self) -> None:
        """The partition's leadership goes away, and comes back."""
        if self._up and self._shell.coordinator.status.value == "active":
            self._step(Resign())
            self._restarts += 1
            self.later(self._dice.randrange(100, 3_000), self._come_back)

    def _come_back(self) -> None:
        if self._up and self._shell.coordinator.status.value == "resigned":
            self._start_broker()

    def _expire(self) -> None:
        """Time for a look at offsets that are too old, whatever the coordinator is at."""
        if self._up:
            self._step(ExpireOffsets())
        self.later(EXPIRY_INTERVAL_MS, self._expire)

    # The network

    def _chance(self, probability: float) -> bool:
        return self._bad_times and self._dice.random() < probability

    def _travel_ms(self) -> int:
        return self._dice.randrange(500, 9_000) if self._chance(0.03) else self._dice.randrange(1, 20)

    def _bring_back(self, member: SimMember, answered: Callable[[Result], None], result: Result) -> None:
        if not self._chance(0.02):
            self.later(self._travel_ms(), lambda: answered(result) if member.alive else None, member)

    def _arrive(self, command: Request) -> None:
        if self._up:
            self._oracle.asked(command)
            self._step(command)

    # The coordinator

    def _step(self, command: Command) -> None:
        if self._chance(0.02):
            self._shell.fail_next_append = self._dice.choice(APPEND_ERRORS)
        if self._shell.coordinator.must_settle_before(command):
            self._settle()
        for asked, effects in self._shell.decide(command, self.now_ms):
            self._took(effects, asked)
        if not self._shares_appends:
            self._settle()
            self._shell.fail_next_append = None
        elif len(self._shell.unsettled) == 1:
            # Whatever arrives until then shares the append.
            self.later(self._dice.randrange(10), self._settle)
        self._set_alarm()

    def _settle(self) -> None:
        if self._up:
            for asked, effects in self._shell.settle(self.now_ms):
                self._took(effects, asked)

    def _ring(self) -> None:
        self._alarm_at_ms = None
        self._settle()
        while self._up and (effects := self._shell.fire_timers(self.now_ms)) is not None:
            self._took(effects, None)
        self._set_alarm()

    def _took(self, effects: Effects, command: Command | None) -> None:
        self._steps += 1
        self._note(effects, command)
        if isinstance(command, ExpireOffsets):
            self._expirations += len(effects.records)
            self._oracle.expired(effects, self.now_ms + self._shell.time_of_day_offset_ms)
        if self._shell.coordinator.status.value == "resigned":
            self._oracle.resigned(effects)
        else:
            self._oracle.stepped(effects)
            self._oracle.timed(self.now_ms)
        for reply in effects.replies:
            answer = self._answers.pop(reply.to, None)
            if answer is not None:
                answer(reply.result)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due_ms = self._shell.coordinator.next_deadline_ms() if self._up else None
        if due_ms is not None and (self._alarm_at_ms is None or due_ms < self._alarm_at_ms):
            self._alarm_at_ms = due_ms
            self.later(max(due_ms - self.now_ms, 0), self._ring)

    def _note(self, effects: Effects, command: Command | None) -> None:
        self._causes.update(event.trigger for event in effects.events if event.trigger is not None)
        kinds = [(event.kind, event.trigger, event.generation) for event in effects.events]
        answers = [(reply.to, type(reply.result).__name__) for reply in effects.replies]
        self._trace.update(f"{self.now_ms}{type(command).__name__}{len(effects.records)}{answers}{kinds}".encode())
        if self._tell is not None:
            self._tell(f"{self.now_ms} {command if command is not None else 'timer'}")
            for line in render_effects(effects):
                self._tell(f"    {line}")

    def _say(self, line: str) -> None:
        if self._tell is not None:
            self._tell(f"{self.now_ms} {line}")


def simulate(seed: int, *, make: Make = Coordinator, tell: Callable[[str], None] | None = None) -> Outcome:
    """One seed's life; SimulationFailed when something happens that must not."""
    return Simulation(seed, make=make, tell=tell).run()


def main(arguments: Sequence[str]) -> int:
    """Run the seeds named, or the first hundred; one seed is told in full."""
    seeds = [int(argument) for argument in arguments] or range(100)
    tell = _print if len(seeds) == 1 else None
    for seed in seeds:
        try:
            outcome = simulate(seed, tell=tell)
        except SimulationFailed as failure:
            _print(str(failure))
            return 1
        _print(str(outcome))
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
