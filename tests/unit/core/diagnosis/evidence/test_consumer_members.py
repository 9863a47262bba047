"""Tests of the members and groups that a replay of KIP-848 records changes."""

from ottla.core.diagnosis.evidence.consumer_members import ConsumerGroup, ConsumerMember

METADATA = {
    "instanceId": "i",
    "clientId": "c",
    "clientHost": "/h",
    "subscribedTopicNames": ["t"],
    "subscribedTopicRegex": None,
    "rebalanceTimeoutMs": 300_000,
    "serverAssignor": None,
}


def test_a_member_as_events_have_it() -> None:
    member = ConsumerMember(member_id="m", metadata=METADATA).event_member({"t": (0,)})
    assert (member.instance_id, member.client_id, member.client_host, member.assignment) == ("i", "c", "/h", {"t": (0,)})
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (-1, 300_000)


def test_a_classic_member_has_its_own_session_timeout() -> None:
    classic = METADATA | {"classicMemberMetadata": {"sessionTimeoutMs": 45_000, "supportedProtocols": []}}
    member = ConsumerMember(member_id="m", metadata=classic)
    assert member.is_classic
    assert member.event_member().session_timeout_ms == 45_000


def test_a_member_of_which_only_the_assignment_is_known() -> None:
    member = ConsumerMember(member_id="m")
    assert (member.instance_id, member.subscription, member.is_classic) == (None, (frozenset(), ""), False)
    assert member.event_member().client_id == ""


def test_the_topics_of_a_group_are_those_of_its_members_and_regular_expressions() -> None:
    group = ConsumerGroup(regular_expressions={"u.*": frozenset({"u1"})})
    group.member("m").metadata = METADATA
    assert group.member("m") is group.members["m"]
    assert group.topics() == {"t", "u1"}


def test_an_epoch_ends_what_led_to_it() -> None:
    group = ConsumerGroup(joined=[ConsumerMember(member_id="m")], resubscribed=1, assignors_changed=1, are_topics_changed=True)
    group.end_epoch()
    assert group == ConsumerGroup()
