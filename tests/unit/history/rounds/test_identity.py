from ottla.history.rounds.identity import Identity, KnownMembers, of_member
from tests.support.kit.evidence import EvidenceLog, member

UUID = "51b6c1d2-0000-4000-8000-0123456789ab"


def test_instance_id_then_client_id_then_the_member_id_name_a_client() -> None:
    assert Identity(f"w1-{UUID}", "i", "c").name == "i"
    assert Identity(f"w1-{UUID}", None, "c").name == "c"
    assert Identity(f"w1-{UUID}").label == "w1"
    assert Identity("KfqTkGW8RvKSBcfw7XNo6A").label == "KfqTkGW8RvKSBcfw7XNo6A"
    assert Identity().label == "a member"


def test_the_same_client_may_have_another_host() -> None:
    one, other = Identity("a", None, "c", "/h1"), Identity("b", None, "c", "/h2")
    assert one.is_same_client(other)
    assert not one.has_same_host(other)
    assert not Identity("a").is_same_client(Identity("b"))


def test_what_one_source_says_about_a_member_id_completes_what_others_say() -> None:
    known, log = KnownMembers(), EvidenceLog()
    log.rebalance(1, members=(member("w1", member_id="m1"),))
    log.leave("m1", 1)
    known.learn(log.lines)
    assert known.complete(Identity("m1")) == of_member(member("w1", member_id="m1"))
    assert known.complete(Identity("m2")) == Identity("m2")
