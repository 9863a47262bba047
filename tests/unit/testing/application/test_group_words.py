"""What a group did, in words."""

from typing import Any

from ottla.groups.events import EventMember, GroupEvent, TriggerCode
from ottla.history.group_history import histories_of_events
from ottla.testing.application.group_words import WORDS, rebalances_in_words


def event(kind: str, generation: int = 1, **fields: Any) -> GroupEvent:
    states = {"state_from": "Stable", "state_to": "PreparingRebalance"}
    return GroupEvent(**({"at_ms": 0, "group": "g", "kind": kind, "generation": generation} | states | fields))


def member(member_id: str, client_id: str, instance_id: str | None = None) -> EventMember:
    timeouts = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1}
    return EventMember(member_id=member_id, instance_id=instance_id, client_id=client_id, client_host="/127.0.0.1", **timeouts)


def lines_of(*events: GroupEvent) -> list[str]:
    history = histories_of_events(events).get("g")
    return rebalances_in_words([] if history is None else list(history.generations())).splitlines()


def test_every_cause_has_words() -> None:
    assert set(WORDS) == {cause.value for cause in TriggerCode}
    for cause in TriggerCode:
        (_, line) = lines_of(event("trigger", trigger=cause.value, client_id="w1"))
        assert cause.value not in line


def test_a_group_without_rebalances() -> None:
    assert lines_of() == lines_of(event("deleted")) == ["Its events show no rebalance."]


def test_a_rebalance_names_its_cause_and_who_is_in_the_generation() -> None:
    one, two = member("m1", "w1"), member("m2", "w2", "static-2")
    told = lines_of(
        event("trigger", trigger="JOIN_NEW", client_id="w1", member_id="m1"),
        event("trigger", trigger="JOIN_NEW", client_id="w2", instance_id="static-2", coalesced=True),
        event("join_completed", 2, members=(one, two)),
        event("sync_completed", 2, members=(one, two)),
        event("offsets_expired", 2),
        event("trigger", 2, trigger="EXPIRE_HEARTBEAT", client_id="w1", member_id="m1", evidence={"last_heartbeat_age_ms": 45_000}),
        event("join_completed", 3, members=(two,)),
    )
    assert told == [
        "Its 2 rebalances:",
        "  1. w1 joined; static-2 joined (planned): generation 2 with static-2, w1",
        "  2. the session of w1 ended, which sent no heartbeat for 45000 ms (unplanned): not ended, static-2 joined",
    ]


def test_members_that_share_a_client_id_have_their_member_ids() -> None:
    members = (member("rdkafka-1", "rdkafka"), member("rdkafka-2", "rdkafka"))
    told = lines_of(
        event("trigger", trigger="LEAVE", client_id="rdkafka", member_id="rdkafka-3", client_reason="closing"),
        event("join_completed", 2, members=members),
        event("sync_completed", 2, members=members),
    )
    assert told[1] == '  1. rdkafka-3 left, saying "closing" (planned): generation 2 with rdkafka-1, rdkafka-2'


def test_how_a_rebalance_ended() -> None:
    told = lines_of(
        event("trigger", trigger="JOIN_NEW"),
        event("join_completed", 2),
        event("trigger", trigger="LEAVE", client_id="w1"),
        event("emptied", 3),
        event("trigger", trigger="JOIN_NEW", client_id="w1"),
        event("loaded", 3),
        event("join_completed", 4),
    )
    assert [line.partition("): ")[2] for line in told[1:]] == [
        "the next rebalance began before the assignment was stored",
        "no member is left",
        "interrupted, the coordinator was loaded again or the group deleted",
        "not ended",
    ]
    assert told[1].startswith("  1. a member joined")
    assert told[4] == "  4. Perhaps: The group moved to another coordinator, and members joined again (unplanned): not ended"
