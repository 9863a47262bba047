"""When each process was in the group: from its join to its leave, and how long it was silent before it was removed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.core.diagnosis.evidence.model import Evidence, Kind
from ottla.core.diagnosis.story.processes import Processes
from ottla.core.diagnosis.story.rebalance import MemberName

JOINS: Final = frozenset({"JOIN_NEW", "COLD_START"})
GONE: Final = frozenset({"LEAVE_CLOSE", "POLL_TIMEOUT", "EXPIRE_HEARTBEAT", "JOIN_TIMEOUT", "SYNC_TIMEOUT", "ADMIN"})
"""What a trigger may mean: a restart is both, and shows by its other candidates which half it is."""
EXPIRED: Final = "EXPIRE_HEARTBEAT"
AGE: Final = "last_heartbeat_age_ms"


class Presence:
    """Follows the members of one group through its evidence.

    `lists_members`: the evidence has lists of all members. Without them, members are known by the lines about each of them.
    """

    def __init__(self, processes: Processes, *, lists_members: bool = True) -> None:
        self._lists_members = lists_members
        self.silent: list[tuple[int, int, int]] = []
        """Row, from, to in milliseconds: a process that was still a member and sent nothing."""
        self._processes = processes
        self._last_rows: Sequence[int] | None = None
        self._here: dict[int, int] = {}
        self._asked_ms: dict[str, int] = {}

    def note(self, evidence: Evidence) -> None:
        """One line of evidence about one member: it joins or is gone."""
        codes = {evidence.trigger, *evidence.candidates} if evidence.kind is Kind.TRIGGER else set()
        if evidence.kind is Kind.MEMBER_JOINED or codes & JOINS:
            if evidence.member_id is not None:
                self._asked_ms.setdefault(evidence.member_id, evidence.at_ms)
                self._appear(evidence)
        elif evidence.kind in (Kind.MEMBER_LEFT, Kind.MEMBER_REMOVED) or codes & GONE:
            name = MemberName(evidence.member_id, evidence.instance_id, evidence.client_id, evidence.client_host)
            row = self._processes.find(name)
            if row is not None and row in self._here:
                self._leave(row, evidence.at_ms)
                self._last_rows = None
                if evidence.trigger == EXPIRED:
                    self._note_silence(row, evidence)

    def _appear(self, evidence: Evidence) -> None:
        if not self._lists_members:
            name = MemberName(evidence.member_id, evidence.instance_id, evidence.client_id, evidence.client_host)
            self._here.setdefault(self._processes.row_of(name, self._here, evidence.at_ms), evidence.at_ms)

    def set_members(self, rows: Sequence[int], ids: Iterable[str], at_ms: int) -> None:
        """All members of a generation, by row and member id."""
        if rows is self._last_rows:
            return
        self._last_rows = rows
        joined = dict(zip(rows, ids, strict=True))
        for row in [row for row in self._here if row not in joined]:
            self._leave(row, at_ms)
        for row, member_id in joined.items():
            if row not in self._here:
                self._here[row] = min(at_ms, self._asked_ms.pop(member_id, at_ms))

    def end(self) -> None:
        """The evidence ends: who is here stays."""
        for row, from_ms in self._here.items():
            self._processes.rows[row].present.append([from_ms, None])

    def _leave(self, row: int, at_ms: int) -> None:
        self._processes.rows[row].present.append([self._here.pop(row), at_ms])

    def _note_silence(self, row: int, evidence: Evidence) -> None:
        age_ms = _age(evidence.evidence)
        if age_ms is not None:
            self.silent.append((row, evidence.at_ms - age_ms, evidence.at_ms))


def _age(figures: Mapping[str, int]) -> int | None:
    age = figures.get(AGE)
    return age if age is not None and age > 0 else None
