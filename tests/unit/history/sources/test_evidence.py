"""Evidence, and the causes that it may name."""

import dataclasses

import pytest

from ottla.groups.events import EventMember
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source, about_member, name_in_member_id


def test_what_a_source_does_not_know_is_none() -> None:
    evidence = Evidence(at_ms=1, source=Source.CLIENT_LOG, clock="client.log", kind=Kind.CLIENT_LOST)
    assert (evidence.group, evidence.generation, evidence.members, evidence.candidates) == (None, None, None, ())


def test_evidence_does_not_change() -> None:
    evidence = Evidence(at_ms=1, source=Source.ADMIN, clock="admin", kind=Kind.EMPTIED)
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.at_ms = 2  # type: ignore[misc]


def test_evidence_about_a_member_names_it() -> None:
    member = EventMember(
        member_id="m", instance_id="i", client_id="c", client_host="", session_timeout_ms=1, rebalance_timeout_ms=1, assignment={}
    )
    named = about_member(Evidence(at_ms=1, source=Source.ADMIN, clock="admin", kind=Kind.MEMBER_LEFT), member)
    assert (named.member_id, named.instance_id, named.client_id, named.client_host) == ("m", "i", "c", None)


UUID = "51b6c1d2-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    ("member_id", "name"),
    [
        (f"w1-{UUID}", "w1"),
        (f"consumer-g-1-{UUID}", "consumer-g-1"),
        ("KfqTkGW8RvKSBcfw7XNo6A", None),
        (UUID, None),
        ("", None),
        (None, None),
    ],
)
def test_a_classic_member_id_begins_with_the_name_of_the_client(member_id: str | None, name: str | None) -> None:
    assert name_in_member_id(member_id) == name


def test_a_cause_is_its_own_text() -> None:
    assert [cause.value for cause in Cause] == [cause.name for cause in Cause]
    assert f"{Cause.POLL_TIMEOUT}" == "POLL_TIMEOUT"
