"""Records that a coordinator has handed to the shell and that are neither replayed nor failed, by group.

Several commands share one append, so a coordinator handles the next commands before the records of the first are in the log. A command
may go ahead if it does not read what a pending record changes; that is decided here.
"""

from collections.abc import Container, Sequence
from typing import Final

from ottla.core.groups.commands import AppendFailed, Command, Heartbeat, JoinGroup, LeaveGroup, OffsetCommit, SyncGroup
from ottla.core.groups.log.committed_offsets import CommittedOffsets
from ottla.core.groups.log.records import GroupRecord

READS_NO_OFFSETS: Final = (OffsetCommit, Heartbeat, JoinGroup, LeaveGroup, SyncGroup)
"""Commands that read a group's members and never its committed offsets."""


class PendingRecords:
    """`count` records; for each group that has some, whether they are more than offsets of a group that exists already."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self.count = 0
        self._groups: dict[str, bool] = {}

    def add(self, records: Sequence[GroupRecord], existing: Container[str]) -> None:
        """Add records that are handed to the shell; `existing` are the ids of the groups that exist."""
        if not self.count:
            self._groups.clear()
        self.count += len(records)
        if isinstance(records, CommittedOffsets):
            # The first offset of a group creates the group.
            if not self._groups.get(records.group_id):
                self._groups[records.group_id] = records.group_id not in existing
        else:
            for record in records:
                self._groups[record.group_id] = True

    def remove(self, count: int) -> None:
        """Remove `count` records that were replayed or have failed."""
        assert self.count >= count, "more records came back than were handed out"
        self.count -= count

    def depends_on_pending(self, command: Command) -> bool:
        """Whether the command reads what a pending record changes: it must then wait until that is replayed or has failed."""
        if not self.count:
            return False
        if isinstance(command, READS_NO_OFFSETS):
            return self._groups.get(command.group_id, False)
        if isinstance(command, AppendFailed):
            return False
        group_id = getattr(command, "group_id", None)
        return group_id is None or group_id in self._groups

    def has(self, group_id: str) -> bool:
        """Whether any record of this group is pending: an earlier request is not answered yet."""
        return self.count > 0 and group_id in self._groups

    def heartbeat_depends_on_pending(self, group_id: str) -> bool:
        """The same as `depends_on_pending` of a Heartbeat."""
        return self.count > 0 and self._groups.get(group_id, False)
