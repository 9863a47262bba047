"""The model of evidence: values that do not change, with room for what a source does not know."""

import dataclasses

import pytest

from ottla.core.diagnosis.evidence.model import Evidence, Kind, Source, about_member
from ottla.core.model import EventMember


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
