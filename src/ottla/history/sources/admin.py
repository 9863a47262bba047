"""Looks at groups by the admin API: taking them, storing them as lines of JSON, and the evidence in what two of them differ in.

The weakest source: what happened and ended between two looks is not seen, nothing says why, and a classic group has no generation here.
Every time is that of the second look; `poll_gap_ms` is how long before it the first one was.

Kinds of stored lines (docs/watch.md): `group` (a group whose state, members or epochs are new), `offsets` (partitions whose commit or end
is new), `topics` (ids and names of topics), `note` (a sentence), and `look`, the last line of every look: what is before it belongs to it.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST, CommittedOffset, DescribedGroup, DescribedTopic, Failure
from ottla.client.errors import RequestFailedError, UnknownTopicError
from ottla.client.settings import ClientSettings
from ottla.groups.events import EventMember
from ottla.history.sources.consumer_records import LEFT_OR_FENCED
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind, Source, about_member
from ottla.history.sources.group_events import read_members
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.text import printable

ADMIN_CLOCK: Final = "admin"
"""The clock of the program that asks."""
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
EMPTY, DEAD, STABLE = "Empty", "Dead", "Stable"
_LEFT: Final = (*LEFT_OR_FENCED, Cause.JOIN_TIMEOUT.value, Cause.ADMIN.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A group at one look. `state` is Kafka's word, Dead for a group that does not exist any more; the epochs are those of KIP-848.

    `committed`: offset by partition; `ends`: the ends of these partitions, where they were asked for. Timeouts of members are not known.
    """

    at_ms: int
    group: str
    group_type: str
    state: str
    protocol: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: tuple[EventMember, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


class AdminSnapshots:
    """Compares each snapshot of a group with the one before."""

    def __init__(self, *, clock: str = ADMIN_CLOCK) -> None:
        self._clock = clock
        self._last: dict[str, GroupSnapshot] = {}

    def read(self, now: GroupSnapshot, *, polled_before_ms: int | None = None) -> Iterator[Evidence]:
        """The evidence of one more snapshot. `polled_before_ms`: the last look at the group, where unchanged ones are not given."""
        before = self._last.get(now.group)
        if before is not None and now.at_ms < before.at_ms:
            return
        if now.state == DEAD:
            self._last.pop(now.group, None)
        else:
            self._last[now.group] = now
        head = Evidence(
            at_ms=now.at_ms,
            source=Source.ADMIN,
            clock=self._clock,
            kind=Kind.OBSERVED,
            group=now.group,
            group_type=now.group_type,
            protocol=now.protocol or None,
        )
        if before is None:
            if now.state != DEAD:
                yield replace(head, generation=now.epoch, members=now.members)
            return
        gap_ms = now.at_ms - (before.at_ms if polled_before_ms is None else polled_before_ms)
        head = replace(head, evidence={"poll_gap_ms": max(0, gap_ms)})
        yield from _commits(now, before, head)
        if now.state == DEAD:
            yield replace(head, kind=Kind.DELETED)
        elif now.group_type != before.group_type:
            yield replace(head, kind=Kind.CONVERTED, generation=now.epoch, members=now.members)
        else:
            yield from _changes(now, before, head)


def _commits(now: GroupSnapshot, before: GroupSnapshot, head: Evidence) -> Iterator[Evidence]:
    """Partitions whose committed offset changed: at least one commit each."""
    moved = {
        partition: CommitSpan(now.at_ms, now.at_ms, offset, offset, 1)
        for partition, offset in now.committed.items()
        if before.committed.get(partition) != offset
    }
    if moved:
        yield replace(head, kind=Kind.COMMITS, commits=moved)


def _changes(now: GroupSnapshot, before: GroupSnapshot, head: Evidence) -> Iterator[Evidence]:
    joined, left, replaced = _compare(now.members, before.members)
    epoch = now.epoch
    has_changed = bool(joined or left) or now.epoch != before.epoch
    if replaced and not has_changed and now.state == before.state == STABLE:
        for member, old in replaced:
            yield about_member(replace(head, kind=Kind.STATIC_REPLACED, generation=epoch, reason=f"replaces {old.member_id}"), member)
    for member in left:
        yield about_member(replace(head, kind=Kind.MEMBER_LEFT, generation=epoch, candidates=_LEFT), member)
    for member in joined:
        yield about_member(replace(head, kind=Kind.MEMBER_JOINED, generation=epoch), member)
    if now.state in REBALANCING and before.state not in REBALANCING:
        yield replace(head, kind=Kind.TRIGGER, generation=before.epoch, reason=f"the group is {now.state}")
    if epoch is not None and epoch != before.epoch and now.members:
        yield replace(head, kind=Kind.JOIN_COMPLETED, generation=epoch, members=now.members)
    if now.state == EMPTY:
        if before.state != EMPTY:
            yield replace(head, kind=Kind.EMPTIED, generation=epoch, members=())
    elif now.target_epoch != before.target_epoch and now.members:
        yield replace(head, kind=Kind.SYNC_COMPLETED, generation=now.target_epoch, members=now.members)
    elif epoch is None and now.state == STABLE and (before.state != STABLE or has_changed or _assigned(now) != _assigned(before)):
        yield replace(head, kind=Kind.SYNC_COMPLETED, members=now.members)


def _compare(
    now: tuple[EventMember, ...], before: tuple[EventMember, ...]
) -> tuple[list[EventMember], list[EventMember], list[tuple[EventMember, EventMember]]]:
    """Members that joined, that left, and static ones with another member id, beside their former selves."""
    new, old = {_key(member): member for member in now}, {_key(member): member for member in before}
    replaced = [(member, old[name]) for name, member in new.items() if name in old and member.member_id != old[name].member_id]
    return [new[name] for name in new if name not in old], [old[name] for name in old if name not in new], replaced


def _key(member: EventMember) -> str:
    return member.instance_id or member.member_id


def _assigned(snapshot: GroupSnapshot) -> dict[str, object]:
    return {_key(member): member.assignment for member in snapshot.members}


GROUP, OFFSETS, TOPICS, NOTE, LOOK = "group", "offsets", "topics", "note", "look"
_GROUP_FIELDS: Final = ("at_ms", "group", "group_type", "state", "protocol", "epoch", "target_epoch")
_BAD_LINE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_TOPICS_START: Final = b'{"kind":"topics",'
Offsets = Sequence[tuple[TopicPartition, int | None, int | None]]


class SnapshotWriter:
    """Turns looks into lines; of each group only what differs from the look before."""

    def __init__(self) -> None:
        self._last: dict[str, GroupSnapshot] = {}

    def lines(
        self, at_ms: int, snapshots: Iterable[GroupSnapshot], *, has_offsets: bool = True, failed: Collection[str] = ()
    ) -> list[bytes]:
        """The lines of one look at all groups; a group that is missing now is gone, unless it is one of those that could not be asked for.

        Unless `has_offsets`, offsets were not looked at.
        """
        lines: list[bytes] = []
        seen: dict[str, GroupSnapshot] = {}
        for found in snapshots:
            before = self._last.get(found.group)
            snapshot = found
            if before is not None and not has_offsets:
                snapshot = replace(found, committed=before.committed, ends=before.ends)
            seen[snapshot.group] = snapshot
            if before is None or _state(before) != _state(snapshot):
                lines.append(_line(GROUP, _group_fields(snapshot)))
            if offsets := _new_offsets(snapshot, before):
                lines.append(_line(OFFSETS, {"at_ms": at_ms, "group": snapshot.group, "offsets": offsets}))
        for group in self._last.keys() - seen.keys():
            if group in failed:
                seen[group] = self._last[group]
                continue
            gone = replace(self._last[group], at_ms=at_ms, state=DEAD, members=())
            lines.append(_line(GROUP, _group_fields(gone)))
        self._last = seen
        return [*lines, _line(LOOK, {"at_ms": at_ms, "groups": len(seen)})]


def topics_line(at_ms: int, topic_names: Mapping[str, str]) -> bytes:
    """A line with topic ids and names."""
    return _line(TOPICS, {"at_ms": at_ms, "names": dict(topic_names)})


def note_line(at_ms: int, text: str) -> bytes:
    """A line with a sentence, as of records that could not be read."""
    return _line(NOTE, {"at_ms": at_ms, "text": text})


def _line(kind: str, fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()


def _state(snapshot: GroupSnapshot) -> GroupSnapshot:
    return replace(snapshot, at_ms=0, committed={}, ends={})


def _group_fields(snapshot: GroupSnapshot) -> dict[str, Any]:
    members = [{name: getattr(member, name) for name in EventMember.__slots__} for member in snapshot.members]
    return {**{name: getattr(snapshot, name) for name in _GROUP_FIELDS}, "members": members}


def _new_offsets(now: GroupSnapshot, before: GroupSnapshot | None) -> list[list[object]]:
    """Topic, partition, committed offset and end (null for none) of the partitions that differ."""
    found: list[list[object]] = []
    for partition in sorted({*now.committed, *now.ends}):
        pair = [now.committed.get(partition), now.ends.get(partition)]
        if before is None or pair != [before.committed.get(partition), before.ends.get(partition)]:
            found.append([*partition, *pair])
    return found


def read_topic_names(lines: Iterable[bytes]) -> dict[str, str]:
    """Topic ids and names of all `topics` lines; others are not looked into."""
    names: dict[str, str] = {}
    for line in lines:
        if not line.startswith(_TOPICS_START):
            continue
        try:
            names.update({str(topic_id): str(name) for topic_id, name in dict(json.loads(line)["names"]).items()})
        except _BAD_LINE:
            continue  # the reader of the snapshots counts it
    return names


class SnapshotReader:
    """Turns lines into evidence. `bad_lines` counts those that cannot be read, `notes` are the sentences of `note` lines."""

    def __init__(self) -> None:
        self.bad_lines = 0
        self.notes: list[str] = []
        self._snapshots = AdminSnapshots()
        self._groups: dict[str, GroupSnapshot] = {}
        self._changed: dict[str, None] = {}
        self._looked_ms: int | None = None

    def read(self, lines: Iterable[bytes]) -> Iterator[Evidence]:
        """The evidence of all complete looks."""
        for line in lines:
            try:
                looked_ms = self._read_line(json.loads(line))
            except _BAD_LINE:
                self.bad_lines += 1
                continue
            if looked_ms is not None:
                yield from self._end_look(looked_ms)

    def _read_line(self, fields: Mapping[str, Any]) -> int | None:
        """Take one line; the time of a look that it ends."""
        kind = fields["kind"]
        if kind == LOOK:
            return int(fields["at_ms"])
        if kind == GROUP:
            snapshot = read_group(fields)
            before = self._groups.get(snapshot.group)
            if before is not None:
                snapshot = replace(snapshot, committed=before.committed, ends=before.ends)
            self._change(snapshot)
        elif kind == OFFSETS:
            self._change(_with_offsets(self._groups[fields["group"]], int(fields["at_ms"]), read_offsets(fields["offsets"])))
        elif kind == NOTE:
            self.notes.append(str(fields["text"]))
        elif kind == TOPICS:
            dict(fields["names"])  # see `read_topic_names`
        return None

    def _change(self, snapshot: GroupSnapshot) -> None:
        self._groups[snapshot.group] = snapshot
        self._changed[snapshot.group] = None

    def _end_look(self, at_ms: int) -> Iterator[Evidence]:
        for group in self._changed:
            snapshot = self._groups[group]
            if snapshot.state == DEAD:
                del self._groups[group]
            yield from self._snapshots.read(snapshot, polled_before_ms=self._looked_ms)
        self._changed.clear()
        self._looked_ms = at_ms


def read_group(fields: Mapping[str, Any]) -> GroupSnapshot:
    """The snapshot of a `group` line, without offsets. Raises ValueError, TypeError or KeyError."""
    return GroupSnapshot(
        at_ms=int(fields["at_ms"]),
        group=str(fields["group"]),
        group_type=str(fields["group_type"]),
        state=str(fields["state"]),
        protocol=str(fields["protocol"]),
        epoch=_number(fields["epoch"]),
        target_epoch=_number(fields["target_epoch"]),
        members=read_members(fields["members"]),
    )


def read_offsets(offsets: Any) -> Offsets:
    """The partitions of an `offsets` line. Raises ValueError, TypeError or KeyError."""
    return [(TopicPartition(str(topic), int(number)), _number(offset), _number(end)) for topic, number, offset, end in offsets]


def _with_offsets(snapshot: GroupSnapshot, at_ms: int, offsets: Offsets) -> GroupSnapshot:
    committed, ends = dict(snapshot.committed), dict(snapshot.ends)
    for partition, offset, end in offsets:
        for known, number in ((committed, offset), (ends, end)):
            if number is None:
                known.pop(partition, None)
            else:
                known[partition] = number
    return replace(snapshot, at_ms=at_ms, committed=committed, ends=ends)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


NOT_KNOWN_MS: Final = -1
"""The admin API does not have the timeouts of members."""
_GONE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE})
Committed = Mapping[TopicPartition, CommittedOffset]
Answer = TypeVar("Answer")


class Poller:
    """Looks at `groups` (None: at all). `note` is called with a sentence about what may not be read.

    As of the last look: `topics`, and `topic_names` with their ids, `described` what coordinators say of groups, and `failed` the groups of
    which something could not be asked.
    """

    def __init__(self, admin: AdminClient, *, groups: Sequence[str] | None, now_ms: Callable[[], int], note: Callable[[str], None]) -> None:
        self._admin = admin
        self._groups = groups
        self._now_ms = now_ms
        self._note = note
        self._refused: set[str] = set()
        self._present: set[str] = set()
        self._committed: dict[str, Committed] = {}
        self.topics: Mapping[str, DescribedTopic] = {}
        self.topic_names: dict[str, str] = {}
        self.described: Mapping[str, DescribedGroup] = {}
        self.failed: set[str] = set()

    def look(self, *, with_offsets: bool = True) -> list[GroupSnapshot]:
        """Every group as it is now, with its offsets and the ends of logs if wanted. Raises ClientError or PeerError."""
        names = self._names()
        at_ms = self._now_ms()
        self.failed.clear()
        described = self.described = self._known(self._admin.describe_groups(names))
        self._present = {name for name, group in described.items() if group.state != DEAD} | self.failed
        if not with_offsets:
            return _snapshots(described, {}, {}, at_ms=at_ms)
        committed = self._known(self._admin.committed(described))
        committed |= {name: self._committed[name] for name in described.keys() & self.failed & self._committed.keys()}
        self._committed = committed
        topics = self.topics = self._admin.list_topics()
        self.topic_names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id}
        wanted = {partition for name, group in described.items() for partition in group.partitions | set(committed.get(name, {}))}
        ends = self._ends(wanted, topics)
        return [
            snapshot_of(group, committed.get(name, {}), ends, at_ms=at_ms)
            for name, group in sorted(described.items())
            if group.state != DEAD
        ]

    def _names(self) -> list[str]:
        """The groups to ask for. One that its coordinator has not loaded yet is in no list: it is asked for if it was there before."""
        if self._groups is not None:
            return list(self._groups)
        return sorted({group.group_id for group in self._admin.list_groups()} | self._present)

    def _known(self, answers: Mapping[str, Answer | Failure]) -> dict[str, Answer]:
        known: dict[str, Answer] = {}
        for name, answer in answers.items():
            if not isinstance(answer, Failure):
                known[name] = answer
            elif answer.code not in _GONE:
                self.failed.add(name)
                if name not in self._refused:
                    self._refused.add(name)
                    self._note(f"group {printable(name)} may not be described: {answer.code.name}")
        return known

    def _ends(self, wanted: set[TopicPartition], topics: Mapping[str, DescribedTopic]) -> dict[TopicPartition, int]:
        led = [each for each in sorted(wanted) if each.topic in topics and topics[each.topic].leaders.get(each.partition) is not None]
        try:
            return self._admin.list_offsets(led, LATEST)
        except (UnknownTopicError, RequestFailedError) as error:
            # A topic was deleted meanwhile, or may not be read: the groups are worth storing without.
            if str(error) not in self._refused:
                self._refused.add(str(error))
                self._note(f"the ends of logs are not known: {error}")
            return {}


def _snapshots(
    groups: Mapping[str, DescribedGroup], committed: Mapping[str, Committed], ends: Mapping[TopicPartition, int], *, at_ms: int
) -> list[GroupSnapshot]:
    return [snapshot_of(group, committed.get(name, {}), ends, at_ms=at_ms) for name, group in sorted(groups.items()) if group.state != DEAD]


def snapshot_of(group: DescribedGroup, committed: Committed, ends: Mapping[TopicPartition, int], *, at_ms: int) -> GroupSnapshot:
    """A group as it is stored."""
    members = tuple(
        EventMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.host,
            session_timeout_ms=NOT_KNOWN_MS,
            rebalance_timeout_ms=NOT_KNOWN_MS,
            assignment={topic: tuple(numbers) for topic, numbers in sorted(member.partitions.items())},
        )
        for member in sorted(group.members, key=lambda member: member.member_id)
    )
    wanted = group.partitions | set(committed)
    return GroupSnapshot(
        at_ms=at_ms,
        group=group.group_id,
        group_type=group.kind,
        state=group.state,
        protocol=group.assignor,
        epoch=group.group_epoch,
        target_epoch=group.target_epoch,
        members=members,
        committed={item: found.offset for item, found in committed.items() if found.offset >= 0},
        ends={each: ends[each] for each in wanted if each in ends},
    )


LOOKS: Final = 6
PAUSE_S: Final = 2.0


def look_at_cluster(settings: ClientSettings, groups: Sequence[str], note: Callable[[str], None]) -> list[Evidence]:
    """Look at the groups for some seconds. Raises ClientError or PeerError."""
    with AdminClient(settings) as admin:
        poller = Poller(admin, groups=groups or None, now_ms=lambda: time.time_ns() // 1_000_000, note=note)
        found = compare_looks(poller.look, pause=lambda: time.sleep(PAUSE_S))
    note(
        f"the admin API was asked {LOOKS} times in {LOOKS * PAUSE_S:.0f} s: only what changed meanwhile is seen, without reasons and, "
        "for classic groups, generations; `ottla watch` goes on looking"
    )
    return found


def compare_looks(look: Callable[[], list[GroupSnapshot]], *, pause: Callable[[], None], looks: int = LOOKS) -> list[Evidence]:
    """The evidence of several looks, one after the other."""
    snapshots = AdminSnapshots()
    found: list[Evidence] = []
    for number in range(looks):
        if number:
            pause()
        for snapshot in look():
            found += snapshots.read(snapshot)
    return found
