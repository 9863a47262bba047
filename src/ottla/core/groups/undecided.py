"""What a coordinator has handed out and not yet heard of: records that are neither replayed nor failed, and whom they concern.

Several commands share one append, so a coordinator decides about the next ones before the first are in the log. It may, as long as no
command reads what is undecided; which one would, is decided here.
"""

from collections.abc import Container, Sequence
from typing import Final

from ottla.core.groups.commands import AppendFailed, Command, Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup
from ottla.core.groups.committed import CommittedOffsets
from ottla.core.groups.records import GroupRecord

READS_NO_OFFSETS: Final = frozenset({Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup})
"""They look at a group's members and never at what is committed."""


class Undecided:
    """`count` records, and for each group with some of them whether they are more than offsets of a group that is there already."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self.count = 0
        self._groups: dict[str, bool] = {}

    def add(self, records: Sequence[GroupRecord], known: Container[str]) -> None:
        """Records are handed out; `known` are the groups that there are."""
        if not self.count:
            self._groups.clear()
        self.count += len(records)
        if isinstance(records, CommittedOffsets):
            # The first offset of a group makes the group.
            if not self._groups.get(records.group_id):
                self._groups[records.group_id] = records.group_id not in known
        else:
            for record in records:
                self._groups[record.group_id] = True

    def remove(self, count: int) -> None:
        """So many of them came true, or never will."""
        assert self.count >= count, "more records came back than were handed out"
        self.count -= count

    def holds_up(self, command: Command) -> bool:
        """Whether the command would read what is undecided: then that must be settled before."""
        if not self.count or isinstance(command, AppendFailed):
            return False
        group_id = getattr(command, "group_id", None)
        if group_id is None:
            return True
        is_more = self._groups.get(group_id)
        return is_more is not None and (is_more or type(command) not in READS_NO_OFFSETS)

    def holds_up_beats(self, group_id: str) -> bool:
        """As `holds_up`, for a Heartbeat."""
        return self.count > 0 and self._groups.get(group_id, False)
