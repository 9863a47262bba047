"""The state of one coordinator: the replayed log, the groups, and their timers."""

from dataclasses import dataclass

from ottla.core.groups.group import Group
from ottla.core.groups.log.replayed_state import ReplayedState
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.timers import Timers


@dataclass(slots=True)
class ExpiryPass:
    """A pass over all offsets in search of expired ones. `group_ids` are the groups not yet visited, the next one last."""

    group_ids: list[str]
    started_at_ms: int
    tombstones: int = 0


class CoordinatorState:
    """Everything that a coordinator holds. Only `replayed` is durable; the rest is lost at a restart."""

    __slots__ = ("commit_counts", "expiry", "groups", "offsets_committed", "replayed", "settings", "timers")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.replayed = ReplayedState()
        self.groups: dict[str, Group] = {}
        self.timers = Timers()
        self.expiry: ExpiryPass | None = None
        """The pass in progress; None between two passes."""
        self.commit_counts: dict[str, int] = {}
        """Offsets committed since the coordinator started, by group; for metrics."""
        self.offsets_committed = 0

    def count_commits(self, group_id: str, count: int) -> None:
        """Count committed offsets when they are decided, as Kafka's `offset-commit-count` does."""
        self.commit_counts[group_id] = self.commit_counts.get(group_id, 0) + count
        self.offsets_committed += count

    def remove_group(self, group: Group) -> None:
        """Remove a group and cancel its timers."""
        for timer in group.timers():
            self.timers.cancel(timer)
        self.groups.pop(group.group_id, None)
        self.commit_counts.pop(group.group_id, None)
