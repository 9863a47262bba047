"""What librdkafka says of a client belongs to the member of that client that left then, also where the clocks differ."""

from dataclasses import replace
from datetime import UTC
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.client_log import client_log_reader
from ottla.history.sources.departed_members import complete_departures
from ottla.history.sources.model import Evidence, Kind, Source

LOGS = Path(__file__).parents[3] / "data" / "logs"
UUID = "0a1b2c3d-0000-4000-8000-00000000000"


def left(at_ms: int, member: int, *, client: str = "c", kind: Kind = Kind.MEMBER_LEFT) -> Evidence:
    return Evidence(at_ms=at_ms, source=Source.BROKER_LOG, clock="broker.log", kind=kind, group="g", member_id=f"{client}-{UUID}{member}")


def said(at_ms: int, *, client: str = "c", trigger: str | None = Cause.POLL_TIMEOUT) -> Evidence:
    return Evidence(at_ms=at_ms, source=Source.CLIENT_LOG, clock="client.log", kind=Kind.CLIENT_LOST, client_id=client, trigger=trigger)


def members(*evidence: Evidence) -> list[str | None]:
    """The last digit of the member that each of the client's lines is about."""
    named = [each for each in complete_departures(evidence) if each.source is Source.CLIENT_LOG]
    assert all((each.group is None) == (each.member_id is None) for each in named)
    return [each.member_id and each.member_id[-1] for each in named]


def test_a_poll_timeout_belongs_to_the_leave_of_the_same_moment() -> None:
    assert members(left(1_000, 1), left(60_000, 2), said(60_002), left(120_000, 3)) == ["2"]
    assert members(left(60_000, 2, client="d"), said(60_002)) == [None]
    assert members(left(60_000, 2), said(90_000)) == [None]


def test_an_expired_session_is_said_when_the_process_runs_again() -> None:
    assert members(left(1_000, 1), left(60_000, 2, kind=Kind.MEMBER_REMOVED), said(95_000, trigger=None), left(120_000, 3)) == ["2"]


@given(skew=st.integers(-10_000_000, 10_000_000).filter(lambda skew: abs(skew) > 400_000))
def test_clocks_that_differ_are_aligned_by_several_leaves(skew: int) -> None:
    leaves = [left(at_ms, number) for number, at_ms in enumerate((0, 61_000, 150_000, 210_000))]
    assert members(*leaves, said(skew + 2), said(61_001 + skew), said(210_002 + skew)) == ["0", "1", "3"]


def test_one_leave_at_another_time_is_no_evidence_of_a_skew() -> None:
    assert members(left(0, 1), said(500_000)) == [None]


def test_two_members_of_one_client_id_at_the_same_time_are_not_told_apart() -> None:
    assert members(left(1_000, 1), left(1_500, 2), said(1_100)) == [None]


def test_evidence_that_names_its_member_is_left_as_it_is() -> None:
    evidence = [left(0, 1), Evidence(at_ms=0, source=Source.CLIENT_LOG, clock="c", kind=Kind.CLIENT_LOST, client_id="c", member_id="m")]
    assert complete_departures(evidence) == evidence
    assert complete_departures([]) == []


def test_a_silent_leave_was_a_poll_timeout_where_the_process_joins_again() -> None:
    evidence = client_log_reader(clock="client.log", zone=UTC).read_chunk((LOGS / "aiokafka-0.14.log").read_bytes())
    leaves = [(each.generation, each.trigger) for each in complete_departures(list(evidence)) if each.kind is Kind.CLIENT_LEAVES]
    assert leaves == [(1, Cause.POLL_TIMEOUT), (5, None)]


def test_the_warning_of_a_real_librdkafka_is_of_its_member() -> None:
    evidence = [
        *broker_log_reader(clock="broker.log", zone=UTC).read_chunk((LOGS / "apache-kafka-4.3.0.log").read_bytes()),
        *client_log_reader(clock="client.log", zone=UTC).read_chunk((LOGS / "librdkafka-2.16.log").read_bytes()),
    ]
    [timeout] = [
        each
        for each in complete_departures(evidence)
        if each.trigger == Cause.POLL_TIMEOUT and each.client_id == "rd-1" and each.clock == "client.log"
    ]
    assert timeout.group == "rd group (a) in state"
    assert timeout.member_id is not None
    assert timeout.member_id.startswith("rd-1-ec036b84")


def expired(at_ms: int, member_id: str, *, client_id: str | None = None) -> Evidence:
    head = Evidence(at_ms=at_ms, source=Source.BROKER_LOG, clock="broker.log", kind=Kind.MEMBER_REMOVED, group="g", member_id=member_id)
    return replace(head, group_type="consumer", client_id=client_id)


def test_a_poll_timeout_of_librdkafka_is_of_the_kip_848_member_whose_session_expires_next() -> None:
    assert members(expired(500, "a"), said(1_000), expired(40_000, "b"), expired(50_000, "d")) == ["b"]
    assert members(said(1_000), expired(61_001, "b")) == [None]


def test_of_several_it_is_the_one_that_no_other_client_is() -> None:
    assert members(said(1_000), expired(7_000, "b"), expired(7_100, "d")) == [None]
    assert members(said(1_000), expired(7_000, "b", client_id="other"), expired(7_100, "d")) == ["d"]
    assert members(said(1_000), expired(7_000, "b", client_id="c")) == ["b"]
