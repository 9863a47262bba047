"""Who a member is, which members are the same process, and what each process owns: the one place that says so.

An `Identity` is what sources say of a member. Two members are the same process if they have the same member id, or the same instance id,
or if a verdict says that one is the return of the other, or if both are the only member of their client id and host in their generation.
Everything else is another process.

Owners of partitions are processes: a member that was removed and came back with a new member id owns what it owned. A partition's last
owner is kept while it is in no assignment, because a cooperative rebalance revokes a partition and the next one assigns it again.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.groups.events import EventMember
from ottla.history.sources.evidence import Evidence, name_in_member_id
from ottla.protocol.model import TopicPartition

_DEFAULT_NAME: Final = re.compile(r"rdkafka|sarama|kafkajs|kgo|console-consumer|kafka-python-\d.*|aiokafka-\d.*|consumer-.*-\d+")
"""Client ids that libraries use where none is set: many members of a group may have one."""
ROWS_MAX: Final = 65_000
"""More processes share the last row: rows are numbers of 16 bits."""


class Identity(NamedTuple):
    """What is known of a member; None where no source says it."""

    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None

    @property
    def name(self) -> str | None:
        """What the member and its successors after a restart have in common: instance id or client id; None if neither is known."""
        if self.instance_id is not None:
            return self.instance_id
        if self.client_id is not None:
            return self.client_id
        return name_in_member_id(self.member_id)

    @property
    def has_default_name(self) -> bool:
        """Whether its name is the one that a client library gives to every consumer, or to the nth of each process."""
        name = self.name
        return name is not None and self.instance_id is None and _DEFAULT_NAME.fullmatch(name) is not None

    @property
    def label(self) -> str:
        """The shortest text that people recognise the member by."""
        return self.name or self.member_id or "a member"

    def is_same_client(self, other: "Identity") -> bool:
        """Whether both may be the same client: the same name, whatever the host (pods get another one)."""
        name = self.name
        return name is not None and name == other.name

    def has_same_host(self, other: "Identity") -> bool:
        """Whether no source says that the hosts differ."""
        return self.client_host is None or other.client_host is None or self.client_host == other.client_host


def of_evidence(item: Evidence) -> Identity:
    """The member that a piece of evidence names."""
    return Identity(item.member_id, item.instance_id, item.client_id, item.client_host)


def of_member(member: EventMember) -> Identity:
    """A member as an assignment lists it."""
    return Identity(member.member_id, member.instance_id, member.client_id or None, member.client_host or None)


class KnownMembers:
    """What all sources of a group say about each member id, together: a log line that has only the id gets client id and host."""

    def __init__(self) -> None:
        self._known: dict[str, Identity] = {}
        self._instances: set[str] = set()

    def learn(self, evidence: Iterable[Evidence]) -> None:
        """Remember every member that the evidence names or lists."""
        for item in evidence:
            if item.member_id:
                self._add(of_evidence(item))
            for member in item.members or ():
                if member.member_id and member.member_id not in self._known:
                    self._add(of_member(member))

    def complete(self, identity: Identity) -> Identity:
        """The identity with what other evidence says about its member id."""
        known = self._known.get(identity.member_id or "")
        merged = identity if known is None else _merged(identity, known)
        name = name_in_member_id(merged.member_id)
        # The member id of a static member begins with its instance id.
        return merged._replace(instance_id=name) if merged.instance_id is None and name in self._instances else merged

    def _add(self, identity: Identity) -> None:
        assert identity.member_id is not None
        known = self._known.get(identity.member_id)
        self._known[identity.member_id] = identity if known is None else _merged(known, identity)
        if identity.instance_id is not None and name_in_member_id(identity.member_id) == identity.instance_id:
            self._instances.add(identity.instance_id)


def _merged(first: Identity, second: Identity) -> Identity:
    return Identity(*(mine if mine is not None else theirs for mine, theirs in zip(first, second, strict=True)))


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


class AssignmentDiff(NamedTuple):
    """What an assignment changed.

    assigned: its partitions. moved: those that another process owned in the assignment before. new: those in no assignment before. gone:
    those that the assignment before had and this one has not. regained: those that the assignment before had not, and an earlier one had,
    as a cooperative follow-up assigns them; given_back: how many of these got their last owner again. kept: those of the same process.
    is_first: no assignment before is known.
    """

    assigned: int
    moved: int
    new: int
    gone: int
    regained: int
    kept: int
    given_back: int = 0
    is_first: bool = False

    @property
    def all_moved(self) -> int:
        """The partitions whose last known owner is another process."""
        return self.moved + self.regained - self.given_back


class Owners:
    """The owners of the partitions of one group, assignment by assignment."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._current: dict[TopicPartition, int] | None = None
        self._last: dict[TopicPartition, int] = {}

    def set(self, members: Sequence[EventMember], at_ms: int) -> None:
        """Take over an assignment that no rebalance made: one that was loaded, or that a source shows first."""
        self._current = self._owned(members, at_ms)
        self._last |= self._current

    def update(self, members: Sequence[EventMember], at_ms: int) -> AssignmentDiff:
        """Take over the assignment of a rebalance: what it changed."""
        before, last = self._current or {}, self._last
        after = self._owned(members, at_ms)
        moved = new = regained = given_back = kept = 0
        for partition, owner in after.items():
            held = before.get(partition)
            if held is not None:
                kept += held == owner
                moved += held != owner
            elif partition in last:
                regained += 1
                given_back += last[partition] == owner
            else:
                new += 1
        gone = sum(partition not in after for partition in before)
        is_first = self._current is None
        self._current = after
        self._last |= after
        return AssignmentDiff(len(after), moved, new, gone, regained, kept, given_back, is_first)

    def _owned(self, members: Sequence[EventMember], at_ms: int) -> dict[TopicPartition, int]:
        rows = self._processes.rows_of(members, at_ms)
        return {
            TopicPartition(topic, partition): row
            for row, member in zip(rows, members, strict=True)
            for topic, partitions in member.assignment.items()
            for partition in partitions
        }
