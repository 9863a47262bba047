"""Stories of all groups in some evidence."""

import json
from typing import Any

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.sources.evidence import CommitSpan, Evidence, Kind, Source
from ottla.history.sources.group_events import evidence_of_events
from ottla.history.story.arrays import LagHistory
from ottla.history.story.stories import Anonymiser, StoryOptions, leading_evidence, stories
from ottla.protocol.model import TopicPartition

MEMBER = EventMember(
    member_id="secret-1",
    instance_id="secret-i",
    client_id="secret-c",
    client_host="/secret",
    session_timeout_ms=1,
    rebalance_timeout_ms=2,
    assignment={"secret-t": [0]},
)


def event(at_ms: int, kind: str, generation: int, owners: dict[str, list[int]] | None = None, group: str = "g", **fields: Any) -> Evidence:
    members = [
        EventMember(
            member_id=f"{name}-id",
            instance_id=None,
            client_id=name.partition("/")[0],
            client_host="/h",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=300_000,
            assignment={"t": numbers} if numbers else {},
        )
        for name, numbers in (owners or {}).items()
    ]
    given = {"at_ms": at_ms, "group": group, "kind": kind, "generation": generation, "state_from": "Stable", "state_to": "Stable"}
    (found,) = evidence_of_events([GroupEvent(members=members, **given, **fields)], clock="broker")
    return found


def lost(group: str = "g") -> list[Evidence]:
    """Two members; one of them is silent for too long."""
    named = {"member_id": "b-id", "client_id": "b", "client_host": "/h"}
    age = {"last_heartbeat_age_ms": 6_100}
    return [
        event(1_000, "sync_completed", 1, {"a": [0], "b": [1]}, group, protocol="range"),
        event(9_000, "trigger", 1, None, group, trigger="EXPIRE_HEARTBEAT", reason="removing member", evidence=age, **named),
        event(9_400, "join_completed", 2, {"a": []}, group, protocol="range"),
        event(9_405, "sync_completed", 2, {"a": [0, 1]}, group, protocol="range"),
    ]


def test_a_lost_member_has_a_sentence_and_its_cost() -> None:
    [story] = stories(lost())
    document = story.to_dict()
    row = {name: values[-1] for name, values in document["rebalances"].items()}
    assert row["sentence"].startswith("b sent no heartbeat for 6.1 s")
    assert (row["cause"], row["planned"], row["confidence"], row["row"]) == ("EXPIRE_HEARTBEAT", False, "high", 1)
    assert (row["stopped"], row["stopped_ms"], row["moved"], row["assignments"], row["is_eager"]) == (2, 405, 1, [1], True)
    assert document["headline"].endswith("was not planned; b caused it.")
    assert document["silent"] == [[1, 2_900, 9_000]]
    assert document["order"] == [1, 0]


def test_each_group_has_its_story_or_those_that_are_asked_for() -> None:
    evidence = lost() + lost("a")
    assert [story.group for story in stories(evidence)] == ["a", "g"]
    assert [story.group for story in stories(evidence, options=StoryOptions(groups=["g"]))] == ["g"]
    assert stories([]) == []


def test_only_rebalances_of_the_time_that_is_asked_for() -> None:
    [story] = stories(lost(), options=StoryOptions(since_ms=5_000, until_ms=9_300))
    assert story.document["rebalances"]["started_ms"] == [9_000]
    assert (story.document["from_ms"], story.document["to_ms"]) == (5_000, 9_300)
    assert len(story.document["members"]) == 2


def test_an_anonymous_story_has_the_same_shape_and_no_names() -> None:
    [named], [anonymous] = (stories(lost("orders"), options=StoryOptions(is_anonymous=is_anonymous)) for is_anonymous in (False, True))
    text = json.dumps(anonymous.to_dict())
    for name in ("orders", "b-id", '"b"', "/h", "removing"):
        assert name not in text
    assert anonymous.group == "group-1"
    assert [each["name"] for each in anonymous.document["members"]] == ["client-1", "client-2"]
    (incident,) = anonymous.document["incidents"][-1:]
    assert (incident["incident"], incident["groups"], incident["culprits"]) == ("lost member", ["group-1"], ["client-2"])
    assert [each["incident"] for each in named.document["incidents"]] == [each["incident"] for each in anonymous.document["incidents"]]
    assert anonymous.document["rebalances"]["sentence"][-1].startswith("client-2 sent no heartbeat for 6.1 s")
    for column in ("cause", "started_ms", "stopped", "moved", "row", "assignments"):
        assert anonymous.document["rebalances"][column] == named.document["rebalances"][column]


def restart(name: str, number: int, members: list[str]) -> list[Evidence]:
    """One of three members restarts and has another id afterwards; `members` is kept up to date."""
    start, generation = 10_000 + 20_000 * number, 2 * number + 1
    left = {"member_id": f"{name}-id", "client_id": name, "client_host": "/h"}
    rest = [each for each in members if each != name]
    members[members.index(name)] = f"{name}/2"
    return [
        event(start, "trigger", generation, trigger="LEAVE", **left),
        event(start + 100, "join_completed", generation + 1, {each: [] for each in rest}, protocol="range"),
        event(start + 110, "sync_completed", generation + 1, {rest[0]: [0], rest[1]: [1, 2]}, protocol="range"),
        event(start + 5_000, "trigger", generation + 1, trigger="JOIN_NEW", **(left | {"member_id": f"{name}/2-id"})),
        event(start + 5_100, "join_completed", generation + 2, {each: [] for each in members}, protocol="range"),
        event(start + 5_110, "sync_completed", generation + 2, {each: [at] for at, each in enumerate(members)}, protocol="range"),
    ]


def test_deployments_and_what_matters_most_are_in_the_story() -> None:
    members = ["w1", "w2", "w3"]
    first = event(1_000, "sync_completed", 1, {each: [at] for at, each in enumerate(members)}, protocol="range")
    restarts = [each for number, name in enumerate(list(members)) for each in restart(name, number, members)]
    [story] = stories([first, *restarts])
    assert [each["is_deployment"] for each in story.document["bursts"]] == [True]
    assert story.document["bursts"][0]["sentence"].startswith("A rolling deployment of 3 clients: ")
    assert any("UTC" in finding for finding in story.document["findings"])
    assert [each["name"] for each in story.document["members"]] == ["w1", "w2", "w3"]


def test_the_source_that_lists_assignments_leads() -> None:
    log = Evidence(at_ms=1, source=Source.BROKER_LOG, clock="server.log", kind=Kind.JOIN_COMPLETED, group="g", generation=2)
    assert leading_evidence([log, *lost()]) == lost()
    assert leading_evidence([log]) == [log]
    assert leading_evidence([]) == []


def test_times_of_another_clock_are_corrected() -> None:
    """The log's clock is a minute ahead, and alone in knowing of a second rebalance."""
    log = [
        Evidence(
            at_ms=69_400, source=Source.BROKER_LOG, clock="server.log", kind=Kind.JOIN_COMPLETED, group="g", generation=2, member_count=1
        ),
        Evidence(
            at_ms=71_000,
            source=Source.BROKER_LOG,
            clock="server.log",
            kind=Kind.TRIGGER,
            group="g",
            generation=2,
            trigger="JOIN_NEW",
            client_id="c",
        ),
        Evidence(
            at_ms=71_100, source=Source.BROKER_LOG, clock="server.log", kind=Kind.JOIN_COMPLETED, group="g", generation=3, member_count=2
        ),
    ]
    [story] = stories([*lost(), *log])
    started = story.document["rebalances"]["started_ms"]
    assert started == [1_000, 9_000, 11_000]
    assert story.document["clocks"]


def test_a_name_gets_the_same_other_name_each_time() -> None:
    anonymiser = Anonymiser()
    assert [anonymiser.name("client", name) for name in ("a", "b", "a")] == ["client-1", "client-2", "client-1"]
    assert anonymiser.name("host", "a") == "host-1"
    assert anonymiser.name("host", "") == ""
    assert anonymiser.name("host", None) is None


def test_evidence_keeps_what_happened_and_when() -> None:
    given = Evidence(
        at_ms=5,
        source=Source.BROKER_LOG,
        clock="/var/log/secret.log",
        kind=Kind.SYNC_COMPLETED,
        group="secret-g",
        reason="secret",
        client_reason="secret",
        member_id="secret-1",
        instance_id="secret-i",
        client_id="secret-c",
        client_host="/secret",
        leader="secret-1",
        members=(MEMBER,),
        topics=frozenset({"secret-t"}),
        commits={TopicPartition("secret-t", 0): CommitSpan(1, 2, 3, 4, 5)},
        evidence={"silent_ms": 7},
    )
    found = Anonymiser().evidence(given)
    assert "secret" not in str(found)
    assert (found.at_ms, found.kind, found.evidence) == (5, Kind.SYNC_COMPLETED, {"silent_ms": 7})
    assert (found.leader, found.member_id) == ("member-1", "member-1")
    assert found.members is not None
    assert found.members[0].assignment == {"topic-1": [0]}


def test_lag_keeps_its_rows() -> None:
    found = Anonymiser().lag(LagHistory(1, 2, {TopicPartition("secret", 3): [4]}))
    assert found.rows == {TopicPartition("topic-1", 3): [4]}
