"""The context in which a coordinator handles one command: its state, the time, and the effects collected so far.

Handlers read and change soft state through it and add the effects that the shell carries out. They change nothing durable.
"""

from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.effects import ArmedTimers, Effects, Reply, Result
from ottla.core.groups.log.committed_offsets import CommittedOffsets
from ottla.core.groups.log.records import GroupRecord
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.timers import Timer
from ottla.core.model import GroupEvent

NO_EFFECTS = Effects()
"""The effects of a request that is parked."""


class CommandContext:
    """Collects `Effects`. `now_ms` is the time of day, for records and events; `timer_ms` is the time of the timers' clock."""

    __slots__ = ("_armed", "commit", "events", "log_lines", "now_ms", "records", "replies", "state", "timer_ms")

    def __init__(self, state: CoordinatorState, now_ms: int, timer_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.timer_ms = timer_ms
        self.records: list[GroupRecord] = []
        self.commit: CommittedOffsets | None = None
        """What an OffsetCommit stores, in place of `records`."""
        self.replies: list[Reply] = []
        self.events: list[GroupEvent] = []
        self.log_lines: list[str] = []
        self._armed: list[Timer] = []

    @property
    def settings(self) -> GroupSettings:
        """The operator's settings."""
        return self.state.settings

    def reply(self, to: int, result: Result) -> None:
        """Answer request `to` once the records are stored."""
        self.replies.append(Reply(to=to, result=result))

    def log(self, line: str) -> None:
        """Add one of Kafka's own log lines, without its prefix."""
        self.log_lines.append(line)

    def arm(self, timer: Timer, delay_ms: int) -> None:
        """Make a timer fire in `delay_ms`."""
        self.state.timers.arm(timer, self.timer_ms + delay_ms)
        self._armed.append(timer)

    def cancel(self, timer: Timer) -> None:
        """Disarm a timer."""
        self.state.timers.cancel(timer)

    def effects(self) -> Effects:
        """The effects collected for the shell."""
        assert self.commit is None or not self.records, "a commit stores offsets and nothing else"
        if not (self.replies or self.records or self._armed or self.events or self.log_lines or self.commit is not None):
            return NO_EFFECTS
        return Effects(
            records=tuple(self.records) if self.commit is None else self.commit,
            replies=tuple(self.replies),
            events=tuple(self.events),
            timers=ArmedTimers([(timer, timer.at_ms) for timer in self._armed if timer.at_ms is not None]) if self._armed else (),
            log_lines=tuple(self.log_lines),
        )
