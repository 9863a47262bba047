"""One step of a coordinator while it is being taken: the machine's state, the time, and the effects collected so far.

The functions of the machine get a step, read and change soft state through it, and add to it what the shell must do. It changes
nothing durable.
"""

from dataclasses import dataclass

from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.committed import CommittedOffsets
from ottla.core.groups.durable import DurableState
from ottla.core.groups.effects import ArmedTimers, Effects, Reply, Result
from ottla.core.groups.records import GroupRecord
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.timers import Timer, Timers
from ottla.core.model import GroupEvent


@dataclass(slots=True)
class Pass:
    """A pass over old offsets that is under way: the groups still to be looked at, the next one last, and what it did so far."""

    group_ids: list[str]
    began_at_ms: int
    tombstones: int = 0


class Registry:
    """Everything that a coordinator holds: what is durable, the groups as they are now, and their deadlines."""

    __slots__ = ("commit_counts", "durable", "expiry", "groups", "offsets_committed", "settings", "timers")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.durable = DurableState()
        self.groups: dict[str, ClassicGroup] = {}
        self.timers = Timers()
        self.expiry: Pass | None = None
        self.commit_counts: dict[str, int] = {}
        """How many offsets were committed since this coordinator began, by group; for those who only look."""
        self.offsets_committed = 0

    def count_commits(self, group_id: str, count: int) -> None:
        """Offsets are being committed: counted when decided, as Kafka's `offset-commit-count` is."""
        self.commit_counts[group_id] = self.commit_counts.get(group_id, 0) + count
        self.offsets_committed += count

    def drop(self, group: ClassicGroup) -> None:
        """Let go of a group that is no more, with its deadlines."""
        for timer in (group.join_timer, group.sync_timer, *group.pending.values()):
            self.timers.cancel(timer)
        for member in group.members.values():
            self.timers.cancel(member.session)
        self.groups.pop(group.group_id, None)
        self.commit_counts.pop(group.group_id, None)


NOTHING = Effects()
"""What is asked of the shell for a request that is parked."""


class Step:
    """Collects `Effects`. `now_ms` is the time of day, for records and events; `timer_ms` that of the clock by which timers run."""

    __slots__ = ("_armed", "commit", "events", "log_lines", "now_ms", "records", "registry", "replies", "timer_ms")

    def __init__(self, registry: Registry, now_ms: int, timer_ms: int) -> None:
        self.registry = registry
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
        return self.registry.settings

    def group(self, group_id: str) -> ClassicGroup | None:
        """The group as it is now, None if there is none."""
        return self.registry.groups.get(group_id)

    def reply(self, to: int, result: Result) -> None:
        """Answer `to` once the records are kept."""
        self.replies.append(Reply(to=to, result=result))

    def log(self, line: str) -> None:
        """One of Kafka's own log lines, without its prefix."""
        self.log_lines.append(line)

    def arm(self, timer: Timer, delay_ms: int) -> None:
        """Let a timer fire in `delay_ms`."""
        self.registry.timers.arm(timer, self.timer_ms + delay_ms)
        self._armed.append(timer)

    def cancel(self, timer: Timer) -> None:
        """Let a timer not fire."""
        self.registry.timers.cancel(timer)

    def saw(self, member: Member) -> None:
        """A sign of life: the member's session starts anew."""
        member.last_seen_ms = self.timer_ms
        self.arm(member.session, member.session_timeout_ms)

    def effects(self) -> Effects:
        """What the shell is asked to do."""
        assert self.commit is None or not self.records, "a commit stores offsets and nothing else"
        if not (self.replies or self.records or self._armed or self.events or self.log_lines or self.commit is not None):
            return NOTHING
        return Effects(
            records=tuple(self.records) if self.commit is None else self.commit,
            replies=tuple(self.replies),
            events=tuple(self.events),
            timers=ArmedTimers([(timer, timer.at_ms) for timer in self._armed if timer.at_ms is not None]) if self._armed else (),
            log_lines=tuple(self.log_lines),
        )
