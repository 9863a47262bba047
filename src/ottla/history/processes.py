"""Decides which members are the same process: the one place that says so, for owners, moves, reports and replays.

Two members are the same process if they have the same member id, or the same instance id, or if a verdict says that one is the return of
the other, or if both are the only member of their client id and host in their generation. Everything else is another process.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.groups.events import EventMember
from ottla.history.rounds.identity import Identity
from ottla.history.sources.model import name_in_member_id

ROWS_MAX: Final = 65_000
"""More processes share the last row: rows are numbers of 16 bits."""


@dataclass(slots=True)
class Process:
    """One process: its last member, its member ids with the time each was first seen, and when it was in the group.

    is_alone: no other member of its generation has the same client id and host.
    """

    member: EventMember
    is_alone: bool
    ids: list[tuple[int, str]] = field(default_factory=list)
    present: list[tuple[int, int | None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What to call it: the instance id, else the client id, else the member id."""
        return self.member.instance_id or self.member.client_id or self.member.member_id


class Processes:
    """All processes of one group in the order in which they were first seen: a process is the number of its row.

    `returned`: by the member id of a member that came back, the id that the same client had before, as verdicts say.
    """

    def __init__(self, returned: Mapping[str, str] | None = None) -> None:
        self.rows: list[Process] = []
        self.returned = {} if returned is None else returned
        self._by_member_id: dict[str, int] = {}
        self._by_instance_id: dict[str, int] = {}
        self._by_client: dict[tuple[str, str], int] = {}
        self._last_ids: list[str] = []
        self._last_rows: list[int] = []

    def rows_of(self, members: Sequence[EventMember], at_ms: int) -> list[int]:
        """The row of each member of one generation, in their order."""
        ids = [member.member_id for member in members]
        if ids == self._last_ids:
            for row, member in zip(self._last_rows, members, strict=True):
                self.rows[row].member = member
            return self._last_rows
        clients = Counter([(member.client_id, member.client_host) for member in members])
        rows = [self._row(member, clients[member.client_id, member.client_host] == 1, at_ms) for member in members]
        self._last_ids, self._last_rows = ids, rows
        return rows

    def row_of(self, who: Identity, present: Collection[int], at_ms: int) -> int:
        """The row of a member that only its name is known of; `present`: the rows of all that are there."""
        client_id = who.client_id or name_in_member_id(who.member_id) or who.member_id or ""
        member = EventMember(
            member_id=who.member_id or "",
            instance_id=who.instance_id,
            client_id=client_id,
            client_host=who.client_host or "",
            session_timeout_ms=0,
            rebalance_timeout_ms=0,
        )
        namesakes = [self.rows[row].member for row in present]
        is_alone = not any((each.client_id, each.client_host) == (member.client_id, member.client_host) for each in namesakes)
        return self._row(member, is_alone, at_ms)

    def find(self, who: Identity) -> int | None:
        """The row of a member as evidence names it, if it is clear which one is meant."""
        if who.member_id is not None and who.member_id in self._by_member_id:
            return self._by_member_id[who.member_id]
        if who.instance_id is not None:
            return self._by_instance_id.get(who.instance_id)
        if who.client_id is None or who.client_host is None:
            return None
        row = self._by_client.get((who.client_id, who.client_host))
        return row if row is not None and self.rows[row].is_alone else None

    def _row(self, member: EventMember, is_alone: bool, at_ms: int) -> int:
        row = self._by_member_id.get(member.member_id)
        if row is None:
            row = self._join(member, is_alone, at_ms)
        process = self.rows[row]
        process.member = member
        if process.is_alone != is_alone:
            process.is_alone = is_alone
            self._by_client[member.client_id, member.client_host] = row
        return row

    def _join(self, member: EventMember, is_alone: bool, at_ms: int) -> int:
        """A member id that was not seen before: of a process that is known, or a new one."""
        row = self._same(member, is_alone)
        if row is None:
            row = min(len(self.rows), ROWS_MAX)
        if row == len(self.rows):
            self.rows.append(Process(member, is_alone))
        self.rows[row].ids.append((at_ms, member.member_id))
        self._by_member_id[member.member_id] = row
        if member.instance_id is not None:
            self._by_instance_id[member.instance_id] = row
        else:
            self._by_client[member.client_id, member.client_host] = row
        return row

    def _same(self, member: EventMember, is_alone: bool) -> int | None:
        if member.instance_id is not None:
            return self._by_instance_id.get(member.instance_id)
        row = self._by_member_id.get(self.returned.get(member.member_id, ""))
        if row is not None:
            return row
        row = self._by_client.get((member.client_id, member.client_host))
        if row is None or not is_alone:
            return None
        process = self.rows[row]
        is_same_client = (process.member.client_id, process.member.client_host) == (member.client_id, member.client_host)
        return row if process.is_alone and is_same_client and process.member.instance_id is None else None


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names of processes; equal ones get a number."""
    counts = Counter(names)
    numbers: Counter[str] = Counter()
    distinct = []
    for name in names:
        numbers[name] += 1
        distinct.append(name if counts[name] == 1 else f"{name} #{numbers[name]}")
    return distinct
