from ottla.groups.events import EventMember
from ottla.history.sources.model import CommitSpan, Evidence, Kind, Source
from ottla.history.story.anonymity import Anonymiser
from ottla.history.story.lag import LagHistory
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
