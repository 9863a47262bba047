"""Tests of looks at groups as lines of JSON."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.diagnosis.evidence.admin_snapshots import AdminSnapshots, GroupSnapshot
from ottla.core.diagnosis.evidence.model import CommitSpan, Kind
from ottla.core.diagnosis.evidence.snapshot_lines import SnapshotReader, SnapshotWriter, note_line, read_topic_names, topics_line
from ottla.core.model import EventMember, TopicPartition

MEMBER = EventMember(
    member_id="m",
    instance_id="i",
    client_id="c",
    client_host="/h",
    session_timeout_ms=-1,
    rebalance_timeout_ms=-1,
    assignment={"t": (0, 1)},
)
PARTITION = TopicPartition("t", 0)
GROUP = GroupSnapshot(
    at_ms=1_000,
    group="g",
    group_type="consumer",
    state="Stable",
    protocol="uniform",
    epoch=3,
    target_epoch=3,
    members=(MEMBER,),
    committed={PARTITION: 5, TopicPartition("t", 1): 0},
    ends={PARTITION: 8},
)


def kinds(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["kind"] for line in lines]


def test_only_what_is_new_is_written() -> None:
    writer = SnapshotWriter()
    assert kinds(writer.lines(1_000, [GROUP])) == ["group", "offsets", "look"]
    assert kinds(writer.lines(2_000, [replace(GROUP, at_ms=2_000)])) == ["look"]
    moved = writer.lines(3_000, [replace(GROUP, at_ms=3_000, ends={PARTITION: 9})])
    assert json.loads(moved[0])["offsets"] == [["t", 0, 5, 9]]
    assert kinds(moved) == ["offsets", "look"]
    assert [json.loads(line).get("state") for line in writer.lines(4_000, [])] == ["Dead", None]


def test_offsets_that_were_not_looked_at_stay_what_they_were() -> None:
    writer = SnapshotWriter()
    writer.lines(1_000, [GROUP])
    bare = replace(GROUP, at_ms=2_000, committed={}, ends={}, state="Empty")
    assert kinds(writer.lines(2_000, [bare], has_offsets=False)) == ["group", "look"]
    assert kinds(writer.lines(3_000, [replace(GROUP, state="Empty")])) == ["look"]


def test_lines_read_back_are_the_looks() -> None:
    looks = [
        (1_000, [GROUP]),
        (2_000, [replace(GROUP, at_ms=2_000, committed={PARTITION: 7})]),
        (3_000, [replace(GROUP, at_ms=3_000, committed={PARTITION: 7}, epoch=4, target_epoch=4)]),
        (4_000, []),
    ]
    writer, reader, direct = SnapshotWriter(), SnapshotReader(), AdminSnapshots()
    found = list(reader.read(line for at_ms, groups in looks for line in writer.lines(at_ms, groups)))
    expected = [each for _, groups in looks for group in groups for each in direct.read(group)]
    assert found[: len(expected)] == expected
    assert [each.kind for each in found] == [Kind.OBSERVED, Kind.COMMITS, Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED, Kind.DELETED]
    assert found[1].commits == {PARTITION: CommitSpan(2_000, 2_000, 7, 7, 1)}
    assert reader.bad_lines == 0


def test_a_group_that_was_quiet_was_still_looked_at() -> None:
    writer, reader = SnapshotWriter(), SnapshotReader()
    looks = [(1_000, GROUP), (50_000, GROUP), (51_000, replace(GROUP, at_ms=51_000, members=()))]
    found = list(reader.read(line for at_ms, group in looks for line in writer.lines(at_ms, [group])))
    assert [(each.kind, each.evidence.get("poll_gap_ms")) for each in found] == [(Kind.OBSERVED, None), (Kind.MEMBER_LEFT, 1_000)]


def test_a_look_without_its_end_is_not_read() -> None:
    writer, reader = SnapshotWriter(), SnapshotReader()
    assert list(reader.read(writer.lines(1_000, [GROUP])[:-1])) == []


def test_names_and_notes() -> None:
    reader = SnapshotReader()
    lines = [topics_line(1, {"id": "t"}), note_line(2, "a gap"), b"{", b"[]", b'{"kind":"offsets"}', b'{"kind":"later"}']
    assert list(reader.read(lines)) == []
    names = read_topic_names([*lines, b'{"kind":"topics",', b'{"kind":"topics","names":5}', topics_line(3, {"id2": "u"})])
    assert names == {"id": "t", "id2": "u"}
    assert reader.notes == ["a gap"]
    assert reader.bad_lines == 3


JSON = st.recursive(st.none() | st.floats() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4))
LINES = [json.loads(line) for line in (*SnapshotWriter().lines(1_000, [GROUP]), topics_line(1, {}), note_line(1, ""))]


@given(st.lists(st.tuples(st.sampled_from(LINES), st.dictionaries(st.sampled_from([*LINES[0], *LINES[1]]), JSON, max_size=3))))
def test_any_lines_are_counted_and_never_raise(changed: list[tuple[dict[str, object], dict[str, object]]]) -> None:
    reader = SnapshotReader()
    list(reader.read(json.dumps(line | changes).encode() for line, changes in changed))
    assert reader.bad_lines <= len(changed)
