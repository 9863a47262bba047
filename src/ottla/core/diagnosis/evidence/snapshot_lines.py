"""Snapshots of groups as lines of JSON, and back: what `ottla watch` stores of its looks at the admin API (docs/watch.md).

Kinds of lines: `group` (a group whose state, members or epochs are new), `offsets` (partitions whose commit or end is new), `topics` (ids
and names of topics), `note` (a sentence), and `look`, the last line of every look: what is before it belongs to it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.core.diagnosis.evidence.admin_snapshots import DEAD, AdminSnapshots, GroupSnapshot
from ottla.core.diagnosis.evidence.group_events import read_members
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.model import EventMember, TopicPartition

GROUP, OFFSETS, TOPICS, NOTE, LOOK = "group", "offsets", "topics", "note", "look"
_GROUP_FIELDS: Final = ("at_ms", "group", "group_type", "state", "protocol", "epoch", "target_epoch")
_BAD_LINE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_TOPICS_START: Final = b'{"kind":"topics",'
Offsets = Sequence[tuple[TopicPartition, int | None, int | None]]


class SnapshotWriter:
    """Turns looks into lines; of each group only what differs from the look before."""

    def __init__(self) -> None:
        self._last: dict[str, GroupSnapshot] = {}

    def lines(self, at_ms: int, snapshots: Iterable[GroupSnapshot], *, has_offsets: bool = True) -> list[bytes]:
        """The lines of one look at all groups; a group that is missing now is gone. Unless `has_offsets`, offsets were not looked at."""
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
