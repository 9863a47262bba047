"""Lines of scenario files become commands."""

import pytest

from ottla.core.groups.commands import (
    DeleteGroup,
    DescribeGroup,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from ottla.core.wire.consumer_protocol import parse_assignment, parse_subscribed_topics
from ottla.testing.scenarios.commands import ScenarioError, duration_ms, parse_command


def test_a_join() -> None:
    line = (
        "join g m1 instance=i1 session=6s rebalance=2m protocols=range:a,b/sticky:c reason='over there' client=me host=/h old=yes skip=no"
    )
    join = parse_command(line, 7)
    assert isinstance(join, JoinGroup)
    assert (join.reply_to, join.group_id, join.member_id, join.instance_id) == (7, "g", "m1", "i1")
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (6_000, 120_000)
    assert [(name, parse_subscribed_topics(metadata)) for name, metadata in join.protocols] == [("range", ("a", "b")), ("sticky", ("c",))]
    assert (join.reason, join.client_id, join.client_host) == ("over there", "me", "/h")
    assert (join.require_known_member_id, join.supports_skip_assignment) == (False, False)


def test_a_join_without_an_id() -> None:
    join = parse_command("join g - new=m1", 1)
    assert isinstance(join, JoinGroup)
    assert (join.member_id, join.new_member_id, join.require_known_member_id) == ("", "m1", True)


def test_range_assignment() -> None:
    sync = parse_command("sync g m1 gen=3 assignment=m1:flights/0+2,weather/1;m2: type=consumer name=range", 1)
    assert isinstance(sync, SyncGroup)
    assert (sync.generation, sync.protocol_type, sync.protocol_name) == (3, "consumer", "range")
    assignments = {member_id: parse_assignment(part) for member_id, part in sync.assignments}
    assert assignments == {"m1": {"flights": (0, 2), "weather": (1,)}, "m2": {}}


def test_a_commit() -> None:
    commit = parse_command("commit g m1 gen=2 flights/0=42(a note) flights/1=7 retention=5s epoch=3".replace("a note", "note"), 1)
    assert isinstance(commit, OffsetCommit)
    assert (commit.member_id, commit.generation, commit.retention_ms) == ("m1", 2, 5_000)
    observed = [(each.topic, each.partition, each.offset, each.leader_epoch, each.metadata) for each in commit.offsets]
    assert observed == [("flights", 0, 42, 3, "note"), ("flights", 1, 7, 3, None)]


def test_an_anonymous_commit() -> None:
    commit = parse_command("commit g flights/0=42", 1)
    assert isinstance(commit, OffsetCommit)
    assert (commit.member_id, commit.generation, commit.retention_ms) == ("", -1, -1)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("heartbeat g m1 gen=1", Heartbeat),
        ("leave g m1 m2", LeaveGroup),
        ("fetch g flights/0 flights/1", OffsetFetch),
        ("delete-offsets g flights/0", OffsetDelete),
        ("describe g", DescribeGroup),
        ("list states=Stable", ListGroups),
        ("delete g", DeleteGroup),
        ("forget flights", ForgetTopics),
    ],
)
def test_every_verb(line: str, kind: type) -> None:
    assert isinstance(parse_command(line, 1), kind)


def test_details() -> None:
    leave, fetch, every, listed = (
        parse_command(line, 1) for line in ("leave g instance=i1", "fetch g a/0 a/1 b/0", "fetch g", "list states=A,B types=c")
    )
    assert isinstance(leave, LeaveGroup)
    assert [(each.member_id, each.instance_id) for each in leave.members] == [("", "i1")]
    assert isinstance(fetch, OffsetFetch)
    assert fetch.topics == (("a", (0, 1)), ("b", (0,)))
    assert isinstance(every, OffsetFetch)
    assert every.topics is None
    assert isinstance(listed, ListGroups)
    assert (listed.states, listed.types) == (("A", "B"), ("c",))


@pytest.mark.parametrize("line", ["dance g", "join g", "heartbeat g m1", "heartbeat g m1 gen=x", "commit g flights=1 flights/x=1"])
def test_nonsense(line: str) -> None:
    with pytest.raises(ScenarioError):
        parse_command(line, 1)


@pytest.mark.parametrize(("text", "ms"), [("5", 5), ("5ms", 5), ("5s", 5_000), ("2m", 120_000), ("-1", -1)])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


def test_a_batch_that_leaves_names_members_and_instances() -> None:
    command = parse_command("leave g m1 @i2 m3@i3", 1)
    assert isinstance(command, LeaveGroup)
    assert [(each.member_id, each.instance_id) for each in command.members] == [("m1", None), ("", "i2"), ("m3", "i3")]


def test_raw_metadata_is_the_text_itself() -> None:
    command = parse_command("join g - protocols=range:xyz raw=yes", 1)
    assert isinstance(command, JoinGroup)
    assert command.protocols == (("range", b"xyz"),)
