"""Runs one trial once: real members of a group of their own, until everything that follows has happened."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ottla.testing.incidents.handles import Handle
from ottla.testing.incidents.members.settings import MemberSettings
from ottla.testing.incidents.world import World
from ottla.testing.whatif_trials.trial import Do, MemberTimes, Step, Trial

PARTITIONS = 6
STABLE_SECONDS_MAX = 90
SETTLED_S = 2.0
LOOK_EVERY_S = 0.1


@dataclass(slots=True, kw_only=True)
class TrialRun:
    """One run: its group, and the times (milliseconds since 1970) between which its rebalances count."""

    trial: Trial
    times: MemberTimes
    group: str
    logs: Path
    ready_ms: int = 0
    ended_ms: int = 0
    members: dict[int, Handle] = field(default_factory=dict)

    def carry_out(self, world: World) -> None:
        """Start the members, do the steps, wait for what follows, end the members."""
        self.logs.mkdir(parents=True)
        world.create_topic(self.group, PARTITIONS)
        try:
            for number in range(len(self.trial.clients)):
                self._start(world, number)
            self._wait_stable()
            self.ready_ms = _now_ms()
            started_s = time.monotonic()
            with ThreadPoolExecutor(len(self.trial.steps)) as pool:
                list(pool.map(lambda step: self._do(step, world, started_s), self.trial.steps))
            time.sleep(max(0.0, started_s + self.trial.lasts_s - time.monotonic()))
            self.ended_ms = _now_ms()
        finally:
            for member in self.members.values():
                member.thaw()
                member.kill()
            world.stop_producing([self.group])

    def log_paths(self) -> Sequence[Path]:
        """The logs of the clients."""
        return sorted(self.logs.glob("*.log"))

    def _start(self, world: World, number: int, *, life: int = 1) -> None:
        client, name = self.trial.clients[number], f"{self.group}-{number}"
        settings = MemberSettings(
            name=name,
            client=client,
            servers=world.servers,
            group=self.group,
            topics=(self.group,),
            assignors=(self.times.assignor,),
            session_ms=self.times.session_ms,
            heartbeat_ms=self.times.heartbeat_ms,
            max_poll_ms=self.times.max_poll_ms,
            metadata_ms=300_000,
            client_id=name,
            instance_id=name if self.times.is_static else None,
        )
        self.members[number] = world.start_member(settings, self.logs / f"{name}.{life}.{client}.log", is_alone=True)

    def _do(self, step: Step, world: World, started_s: float) -> None:
        time.sleep(max(0.0, started_s + step.at_s - time.monotonic()))
        member = self.members[step.member]
        if step.do is Do.FREEZE:
            member.freeze()
            time.sleep(step.seconds)
            member.thaw()
        elif step.do is Do.SLOW:
            member.do("sleep", seconds=step.seconds)
        else:
            member.close() if step.do is Do.RESTART else member.kill()
            if step.seconds:
                time.sleep(step.seconds)
                self._start(world, step.member, life=2)

    def _wait_stable(self) -> None:
        """Until the members own each partition once, each at least one, for a while. Raises TimeoutError."""
        deadline = time.monotonic() + STABLE_SECONDS_MAX
        since_s, seen = time.monotonic(), None
        everything = sorted(f"{self.group}-{number}" for number in range(PARTITIONS))
        while time.monotonic() < deadline:
            owned = [sorted(member.assignment()) for member in self.members.values()]
            if owned != seen:
                since_s, seen = time.monotonic(), owned
            is_divided = all(owned) and sorted(name for names in owned for name in names) == everything
            if is_divided and time.monotonic() - since_s >= SETTLED_S:
                return
            time.sleep(LOOK_EVERY_S)
        raise TimeoutError(f"{self.trial.name}: not stable after {STABLE_SECONDS_MAX} s: {seen}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
