from ottla.history.rounds.assembly import by_group
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog


def test_evidence_without_a_group_is_placed_by_member_or_client() -> None:
    log, client = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, group=None)
    log.join("m1", 0, client_id="w1")
    by_member = client.add(Kind.CLIENT_LEAVES, member_id="m1")
    by_client = client.add(Kind.CLIENT_LEAVES, client_id="w1")
    client.add(Kind.CLIENT_LEAVES, client_id="w9")
    found = by_group([*client.lines, *log.lines])
    assert list(found) == ["g"]
    assert found["g"][-2:] == [by_member, by_client]


def test_a_client_id_of_two_groups_says_nothing() -> None:
    one, two, client = EvidenceLog(group="one"), EvidenceLog(group="two"), EvidenceLog(Source.CLIENT_LOG, group=None)
    one.join("m1", 0, client_id="rdkafka")
    two.join("m2", 0, client_id="rdkafka")
    client.add(Kind.CLIENT_LOST, client_id="rdkafka")
    assert sum(len(items) for items in by_group([*one.lines, *two.lines, *client.lines]).values()) == 2


def test_a_log_of_one_group_keeps_its_lines_together() -> None:
    named, nameless = EvidenceLog(Source.CLIENT_LOG, clock="a.log"), EvidenceLog(Source.CLIENT_LOG, clock="a.log", group=None)
    named.add(Kind.CLIENT_JOINED, generation=1)
    nameless.add(Kind.CLIENT_LOST)
    assert len(by_group([*named.lines, *nameless.lines])["g"]) == 2
