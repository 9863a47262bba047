"""Tests of our broker's group events as evidence."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.events import EventMember, GroupEvent, TriggerCode
from ottla.history.sources.evidence import Kind, Source
from ottla.history.sources.group_events import CODES, causes_of, evidence_of_events, read_event, read_group_events
from ottla.protocol.model import Record

MEMBER = EventMember(
    member_id="m",
    instance_id=None,
    client_id="c",
    client_host="/h",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    assignment={"t": (0, 1)},
)
EVENT = GroupEvent(
    at_ms=5,
    group="g",
    kind="trigger",
    generation=3,
    state_from="Stable",
    state_to="PreparingRebalance",
    trigger="EXPIRE_HEARTBEAT",
    reason="removing member m on heartbeat expiration.",
    member_id="m",
    client_id="c",
    client_host="/h",
    evidence={"last_heartbeat_age_ms": 45_010},
)
SYNCED = replace(EVENT, kind="sync_completed", trigger=None, members=(MEMBER,), protocol="range", leader="m")


def value(event: GroupEvent) -> bytes:
    return json.dumps(event.to_dict()).encode()


@pytest.mark.parametrize("event", [EVENT, SYNCED])
def test_an_event_survives_its_record(event: GroupEvent) -> None:
    assert read_event(value(event)) == event


def test_a_trigger() -> None:
    (found,) = evidence_of_events([EVENT], clock="b")
    assert (found.kind, found.source, found.clock, found.at_ms, found.generation) == (Kind.TRIGGER, Source.GROUP_EVENTS, "b", 5, 3)
    assert (found.trigger, found.candidates, found.reason) == ("EXPIRE_HEARTBEAT", (), EVENT.reason)
    assert (found.member_id, found.client_id, found.client_host) == ("m", "c", "/h")
    assert found.evidence == {"last_heartbeat_age_ms": 45_010}
    assert found.members is None


def test_a_stored_assignment_has_its_members() -> None:
    (found,) = evidence_of_events([SYNCED], clock="b")
    assert (found.kind, found.members, found.protocol, found.leader) == (Kind.SYNC_COMPLETED, (MEMBER,), "range", "m")


def test_events_about_offsets_are_left_out() -> None:
    assert not list(evidence_of_events([replace(EVENT, kind="offsets_expired")], clock="b"))


def test_every_code_of_the_coordinator_has_its_causes() -> None:
    assert set(CODES) == {code.value for code in TriggerCode}


@pytest.mark.parametrize(
    ("code", "client_reason", "trigger"),
    [
        ("LEAVE", "the consumer is being closed", "LEAVE_CLOSE"),
        ("LEAVE", "consumer poll timeout has expired.", "POLL_TIMEOUT"),
        ("LEADER_REJOIN", "cached metadata has changed from (version5) at the beginning", "TOPIC_CHANGE"),
        ("METADATA_UPDATE", "need to revoke partitions and re-join", "COOP_FOLLOWUP"),
        ("METADATA_UPDATE", "rebalance enforced by user", "ENFORCED"),
        ("EXPIRE_HEARTBEAT", "rebalance enforced by user", "EXPIRE_HEARTBEAT"),
    ],
)
def test_the_clients_reason_decides_where_the_code_leaves_several(code: str, client_reason: str, trigger: str) -> None:
    assert causes_of(code, client_reason) == (trigger, ())


def test_without_a_reason_several_causes_are_left() -> None:
    trigger, candidates = causes_of("LEAVE", None)
    assert trigger is None
    assert "POLL_TIMEOUT" in candidates
    assert causes_of("A_LATER_CODE", None) == (None, ())
    assert causes_of(None, None) == (None, ())


def test_a_record_that_cannot_be_read_is_given_as_none() -> None:
    records = [Record(0, 0, None, value(EVENT)), Record(1, 0, None, b"{"), Record(2, 0, None, None)]
    assert [found and found.kind for found in read_group_events(records, clock="b")] == [Kind.TRIGGER, None, None]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from([*EVENT.to_dict()]), JSON | st.dictionaries(st.text(max_size=5), JSON)))
def test_any_values_give_an_event_or_none(changes: dict[str, object]) -> None:
    read_event(json.dumps(SYNCED.to_dict() | changes).encode())


@given(st.binary())
def test_any_bytes_give_an_event_or_none(data: bytes) -> None:
    read_event(data)
