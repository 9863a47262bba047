"""Walks a group's rounds in their order: which process each member is, when it was there, and what each assignment moved."""

from collections.abc import Sequence

from ottla.history.owners import Owners
from ottla.history.processes import Processes
from ottla.history.rounds.round import Membership, Round


def returned_ids(rounds: Sequence[Round]) -> dict[str, str]:
    """By the member id of each client that came back: its id before. Left out where it may be another client of the same name."""
    found: dict[str, str] = {}
    for each in rounds:
        for arrival in each.arrivals:
            loss = arrival.loss
            if loss is None or loss.is_shared_name or loss.is_nameless_pair or loss.is_replaced_before:
                continue
            if arrival.who.member_id is not None and loss.who.member_id is not None:
                found[arrival.who.member_id] = loss.who.member_id
    return found


def follow_owners(rounds: Sequence[Round]) -> Processes:
    """Give each round what its assignment changed; the processes of the group, with the times at which they were members."""
    walk = _OwnershipWalk(returned_ids(rounds))
    for each in rounds:
        if not each.is_avoided:
            walk.take(each)
    walk.end()
    return walk.processes


class _OwnershipWalk:
    def __init__(self, returned: dict[str, str]) -> None:
        self.processes = Processes(returned)
        self._owners = Owners(self.processes)
        self._last: Membership | None = None
        self._here: dict[int, int] = {}
        """Since when each process is a member."""

    def take(self, each: Round) -> None:
        """The next round."""
        if each.before is not None and each.before is not self._last:
            members = list(each.before.members.values())
            if each.before.has_assignments:
                self._owners.set(members, each.started_ms)
            for member_row in self.processes.rows_of(members, each.started_ms):
                self._here.setdefault(member_row, each.started_ms)
        for departure in each.departures:
            row = self.processes.find(departure.who)
            if row is None:
                row = self.processes.row_of(departure.who, self._here, departure.at_ms)
            self._leave(row, departure.at_ms)
        if each.after is None:
            for arrival in each.arrivals:
                self._here.setdefault(self.processes.row_of(arrival.who, self._here, arrival.at_ms), arrival.at_ms)
        else:
            self._set_members(each, each.after)
        self._last = each.before if each.after is None else each.after

    def end(self) -> None:
        """Who is here stays."""
        for row, from_ms in self._here.items():
            self.processes.rows[row].present.append((from_ms, None))

    def _set_members(self, each: Round, after: Membership) -> None:
        members = list(after.members.values())
        if after.has_assignments:
            each.change = self._owners.update(members, each.started_ms)
        rows = self.processes.rows_of(members, each.started_ms)
        joined_ms = {arrival.who.member_id: arrival.at_ms for arrival in each.arrivals}
        for row in self._here.keys() - set(rows):
            self._leave(row, each.started_ms)
        for row, member in zip(rows, members, strict=True):
            self._here.setdefault(row, joined_ms.get(member.member_id, each.started_ms))

    def _leave(self, row: int, at_ms: int) -> None:
        from_ms = self._here.pop(row, None)
        if from_ms is not None:
            self.processes.rows[row].present.append((from_ms, at_ms))
