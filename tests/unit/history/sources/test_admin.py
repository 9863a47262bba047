"""Tests of what two looks at a group differ in."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.errors import UnknownTopicError
from ottla.groups.events import EventMember
from ottla.history.sources.admin import (
    AdminSnapshots,
    GroupSnapshot,
    Poller,
    SnapshotReader,
    SnapshotWriter,
    compare_looks,
    note_line,
    read_topic_names,
    topics_line,
)
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind, Source
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Confidence
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


def member(member_id: str, *partitions: int, instance_id: str | None = None) -> EventMember:
    return EventMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        session_timeout_ms=-1,
        rebalance_timeout_ms=-1,
        assignment={"t": partitions},
    )


STABLE = GroupSnapshot(at_ms=1_000, group="g", group_type="classic", state="Stable", protocol="range", members=(member("a", 0, 1),))
MODERN = replace(STABLE, group_type="consumer", epoch=5, target_epoch=5)


def compare(*snapshots: GroupSnapshot) -> list[Evidence]:
    reader = AdminSnapshots()
    return [found for snapshot in snapshots for found in reader.read(snapshot)]


def test_the_first_look_is_where_comparing_begins() -> None:
    (found,) = compare(STABLE)
    assert (found.kind, found.source, found.members, found.generation) == (Kind.OBSERVED, Source.ADMIN, STABLE.members, None)
    assert compare(replace(STABLE, state="Dead", members=())) == []


def test_nothing_new() -> None:
    assert compare(STABLE, replace(STABLE, at_ms=2_000))[1:] == []


def test_members_that_joined_and_left() -> None:
    found = compare(STABLE, replace(STABLE, at_ms=6_000, members=(member("b", 0, 1),)))[1:]
    assert [(each.kind, each.member_id) for each in found] == [
        (Kind.MEMBER_LEFT, "a"),
        (Kind.MEMBER_JOINED, "b"),
        (Kind.SYNC_COMPLETED, None),
    ]
    assert {each.evidence["poll_gap_ms"] for each in found} == {5_000}
    assert "EXPIRE_HEARTBEAT" in found[0].candidates


def test_a_rebalance_that_was_seen_while_it_ran() -> None:
    preparing = replace(STABLE, at_ms=2_000, state="PreparingRebalance")
    found = compare(STABLE, preparing, replace(STABLE, at_ms=3_000))[1:]
    assert [each.kind for each in found] == [Kind.TRIGGER, Kind.SYNC_COMPLETED]
    assert found[0].reason == "the group is PreparingRebalance"


def test_a_static_member_that_came_back_between_two_looks() -> None:
    one, other = (replace(STABLE, at_ms=at_ms, members=(member(name, 0, instance_id="i"),)) for at_ms, name in ((1, "a1"), (2, "a2")))
    (found,) = compare(one, other)[1:]
    assert (found.kind, found.member_id, found.instance_id, found.reason) == (Kind.STATIC_REPLACED, "a2", "i", "replaces a1")


def test_a_group_that_lost_its_members_and_one_that_is_gone() -> None:
    found = compare(STABLE, replace(STABLE, at_ms=2, state="Empty", members=()), replace(STABLE, at_ms=3, state="Dead", members=()))
    assert [each.kind for each in found] == [Kind.OBSERVED]  # times that go back are not compared
    later = compare(STABLE, replace(STABLE, at_ms=2_000, state="Empty", members=()), replace(STABLE, at_ms=3_000, state="Dead", members=()))
    assert [each.kind for each in later] == [Kind.OBSERVED, Kind.MEMBER_LEFT, Kind.EMPTIED, Kind.DELETED]


def test_epochs_of_a_modern_group() -> None:
    bumped = replace(MODERN, at_ms=2_000, state="Assigning", epoch=6)
    found = compare(MODERN, bumped, replace(bumped, at_ms=3_000, state="Stable", target_epoch=6))[1:]
    assert [(each.kind, each.generation) for each in found] == [(Kind.TRIGGER, 5), (Kind.JOIN_COMPLETED, 6), (Kind.SYNC_COMPLETED, 6)]


def test_a_group_that_changed_its_protocol() -> None:
    (found,) = compare(STABLE, replace(MODERN, at_ms=2_000))[1:]
    assert (found.kind, found.group_type, found.generation) == (Kind.CONVERTED, "consumer", 5)


def test_offsets_that_moved() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    found = compare(replace(STABLE, committed={one: 5, two: 7}), replace(STABLE, at_ms=2_000, committed={one: 5, two: 9}))[1:]
    assert [each.commits for each in found] == [{two: CommitSpan(2_000, 2_000, 9, 9, 1)}]


# Tests of looks at groups as lines of JSON.

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


# Tests of looks at groups by the admin API.


def poller(cluster: Any, notes: list[str], groups: list[str] | None = None) -> Poller:
    return Poller(cluster, groups=groups, now_ms=lambda: 5, note=notes.append)


def test_a_group_with_its_members_offsets_and_ends(cluster: Any) -> None:
    cluster.set_group("g", "m2", "m1")
    cluster.offsets["g"] = {PARTITION: CommittedOffset(7), TopicPartition("deleted", 0): CommittedOffset(3)}
    cluster.add("t", 0, (b"k", b"v"), (b"k", b"v"))
    notes: list[str] = []
    looking = poller(cluster, notes)
    (found,) = looking.look()
    assert (found.at_ms, found.group, found.group_type, found.state, found.protocol) == (5, "g", "classic", "Stable", "range")
    assert [each.member_id for each in found.members] == ["m1", "m2"]
    assert found.members[0].assignment == {"t": (0,)}
    assert found.committed == {PARTITION: 7, TopicPartition("deleted", 0): 3}
    assert found.ends == {PARTITION: 2}
    assert looking.topic_names == {"id-t": "t"}
    assert notes == []


def test_a_look_without_offsets_asks_for_none(cluster: Any, monkeypatch: Any) -> None:
    cluster.set_group("g", "m")
    monkeypatch.delattr(type(cluster), "committed")
    monkeypatch.delattr(type(cluster), "list_offsets")
    (found,) = poller(cluster, []).look(with_offsets=False)
    assert (found.group, found.committed, found.ends) == ("g", {}, {})


def test_chosen_groups_need_not_exist(cluster: Any) -> None:
    cluster.set_group("g", "m")
    cluster.set_group("h", "m")
    cluster.set_group("dead", state="Dead")
    notes: list[str] = []
    assert [each.group for each in poller(cluster, notes, ["h", "missing", "dead"]).look()] == ["h"]
    assert notes == []


def test_a_group_that_may_not_be_described_is_named_once(cluster: Any) -> None:
    cluster.groups["secret"] = Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    notes: list[str] = []
    looking = poller(cluster, notes)
    assert looking.look() == looking.look() == []
    assert notes == ["group secret may not be described: GROUP_AUTHORIZATION_FAILED"]


def test_groups_are_stored_without_ends_that_are_not_known(cluster: Any, monkeypatch: Any) -> None:
    cluster.set_group("g", "m")

    def refuse(*_: Any) -> None:
        raise UnknownTopicError("topic t does not exist")

    monkeypatch.setattr(cluster, "list_offsets", refuse)
    notes: list[str] = []
    looking = poller(cluster, notes)
    assert [each.ends for each in (*looking.look(), *looking.look())] == [{}, {}]
    assert notes == ["the ends of logs are not known: topic t does not exist"]


def test_what_changes_between_looks_is_judged_with_little_certainty() -> None:
    pauses: list[None] = []
    both, one = (member("w1", 0), member("w2", 1)), (member("w1", 0, 1),)
    looks = iter([both, both, one])

    def look() -> list[GroupSnapshot]:
        at_ms = 1_000 + 2_000 * len(pauses)
        return [GroupSnapshot(at_ms=at_ms, group="g", group_type="classic", state="Stable", protocol="range", members=next(looks))]

    (verdict,) = judge(compare_looks(look, pause=lambda: pauses.append(None), looks=3))["g"]
    assert len(pauses) == 2
    assert (verdict.members_before, verdict.members_after, verdict.generation) == (2, 1, None)
    assert {Cause.LEAVE_CLOSE, Cause.EXPIRE_HEARTBEAT} <= set(verdict.candidates)
    assert verdict.confidence < Confidence.HIGH
