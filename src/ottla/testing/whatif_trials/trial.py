"""One trial: the members of a group, what is done to them and when, their settings, and the settings that are changed."""

from dataclasses import dataclass
from enum import StrEnum

from ottla.core.whatif.settings import Settings


class Do(StrEnum):
    """What is done to one member; `seconds` is how long it lasts."""

    FREEZE = "freeze"
    """SIGSTOP, then SIGCONT."""
    SLOW = "slow"
    """The work on one poll takes so long."""
    RESTART = "restart"
    """Closed in order, started again after the time."""
    KILL = "kill"
    """SIGKILL, started again after the time; never if it is 0."""


@dataclass(frozen=True, slots=True)
class Step:
    """At `at_s` after the group was stable, member number `member`."""

    at_s: float
    member: int
    do: Do
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTimes:
    """The settings of all members of a run."""

    session_ms: int = 6_000
    heartbeat_ms: int = 1_000
    max_poll_ms: int = 60_000
    assignor: str = "range"
    is_static: bool = False

    def changed(self, settings: Settings) -> "MemberTimes":
        """The same with what `settings` change."""
        return MemberTimes(
            session_ms=settings.session_timeout_ms or self.session_ms,
            heartbeat_ms=settings.heartbeat_interval_ms or self.heartbeat_ms,
            max_poll_ms=settings.max_poll_interval_ms or self.max_poll_ms,
            assignor=settings.assignor or self.assignor,
            is_static=self.is_static if settings.is_static is None else settings.is_static,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`cluster` is "ottla" or "apache-kafka", `clients` one name for each member (see `incidents.plan`). settle_s: the wait at the end."""

    name: str
    cluster: str
    clients: tuple[str, ...]
    steps: tuple[Step, ...]
    change: Settings
    times: MemberTimes = MemberTimes()
    settle_s: float = 4

    @property
    def lasts_s(self) -> float:
        """From a stable group until everything that follows from the steps has happened, with either settings."""
        longest_ms = max(self.times.session_ms, self.times.changed(self.change).session_ms)
        return max(step.at_s + step.seconds for step in self.steps) + longest_ms / 1_000 + self.settle_s
