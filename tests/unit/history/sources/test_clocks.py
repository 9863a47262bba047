"""Clocks that are apart, and departures that two of them saw."""

import random
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.client_log import client_log_reader
from ottla.history.sources.clocks import ClockSkew, complete_departures, estimate_skews
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source

LOGS = Path(__file__).parents[3] / "data" / "logs"
SKEWS = st.integers(-10 * 86_400_000, 10 * 86_400_000)
DELAYS = st.lists(st.integers(0, 3_000), min_size=1, max_size=30)

UUID = "0a1b2c3d-0000-4000-8000-00000000000"


def broker(at_ms: int, kind: Kind, *, clock: str = "broker.log", generation: int | None = None, member_id: str | None = None) -> Evidence:
    return Evidence(at_ms=at_ms, source=Source.BROKER_LOG, clock=clock, kind=kind, group="g", generation=generation, member_id=member_id)


def client(at_ms: int, kind: Kind, *, clock: str = "client.log", generation: int | None = None, member_id: str | None = None) -> Evidence:
    return Evidence(at_ms=at_ms, source=Source.CLIENT_LOG, clock=clock, kind=kind, group="g", generation=generation, member_id=member_id)


def joins(
    skew_ms: int, delays_ms: list[int], *, client_clock: str = "client.log", broker_clock: str = "broker.log", first: int = 1
) -> list[Evidence]:
    found = []
    for number, delay in enumerate(delays_ms, first):
        at_ms = number * 60_000
        found.append(broker(at_ms, Kind.JOIN_COMPLETED, clock=broker_clock, generation=number))
        found.append(client(at_ms + delay + skew_ms, Kind.CLIENT_JOINED, clock=client_clock, generation=number))
    return found


def leaves(skew_ms: int, delays_ms: list[int]) -> list[Evidence]:
    found = []
    for number, delay in enumerate(delays_ms):
        at_ms = number * 60_000
        found.append(client(at_ms + skew_ms, Kind.CLIENT_LEAVES, member_id=f"m{number}"))
        found.append(broker(at_ms + delay, Kind.MEMBER_LEFT, member_id=f"m{number}"))
    return found


@given(skew=SKEWS, there=DELAYS, back=DELAYS)
def test_a_skew_that_is_bounded_on_both_sides_is_certain(skew: int, there: list[int], back: list[int]) -> None:
    found = estimate_skews([*joins(skew, there), *leaves(skew, back)], reference="broker.log")["client.log"]
    assert abs(found.ahead_ms - skew) <= found.uncertain_ms <= (min(there) + min(back) + 1) / 2
    assert found.correct(1000 + found.ahead_ms) == 1000


@given(skew=SKEWS, delays=st.lists(st.integers(0, 3_000), min_size=3, max_size=30))
def test_a_skew_that_is_bounded_above_is_off_by_the_least_delay(skew: int, delays: list[int]) -> None:
    found = estimate_skews(joins(skew, delays), reference="broker.log")["client.log"]
    assert found.ahead_ms == skew + min(delays)
    assert found.pair_count == len(delays)


@given(skew=SKEWS, delays=DELAYS, shift=SKEWS, seed=st.integers())
def test_the_order_of_evidence_and_the_time_of_day_make_no_difference(skew: int, delays: list[int], shift: int, seed: int) -> None:
    evidence = joins(skew, delays) + leaves(skew, delays)
    here = estimate_skews(evidence, reference="broker.log")["client.log"]
    shuffled = random.Random(seed).sample(evidence, len(evidence))
    assert estimate_skews(shuffled, reference="broker.log") == {"client.log": here}
    there = estimate_skews(evidence, reference="client.log")["broker.log"]
    assert abs(there.ahead_ms + here.ahead_ms) <= 1
    moved = estimate_skews(joins(skew + shift, delays) + leaves(skew + shift, delays), reference="broker.log")["client.log"]
    assert abs(moved.ahead_ms - here.ahead_ms - shift) <= 1


@given(skew=SKEWS, delays=st.lists(st.integers(0, 300), min_size=8, max_size=30), wrong=st.integers(100_000, 500_000))
def test_a_pair_of_different_events_is_left_out(skew: int, delays: list[int], wrong: int) -> None:
    wrong_pair = [broker(0, Kind.JOIN_COMPLETED, generation=99), client(skew - wrong, Kind.CLIENT_JOINED, generation=99)]
    evidence = [*joins(skew, delays), *wrong_pair]
    assert estimate_skews(evidence, reference="broker.log")["client.log"].ahead_ms == skew + min(delays)


def test_a_generation_that_came_twice_says_nothing() -> None:
    twice = [broker(9_000_000, Kind.JOIN_COMPLETED, generation=1)]
    assert estimate_skews(joins(0, [5]) + twice, reference="broker.log") == {}


def test_a_single_late_line_is_no_skew() -> None:
    """A process that was stopped for five seconds writes that it has joined when it runs again."""
    assert str(estimate_skews(joins(0, [5_000]), reference="broker.log")["client.log"]) == (
        "clock of client.log agrees with broker.log within 5.0 s, from 1 event"
    )
    early = estimate_skews(joins(-5_000, [5]), reference="broker.log")["client.log"]
    assert (early.ahead_ms, early.uncertain_ms) == (-4_995, 1_000)


def test_without_common_events_there_is_no_estimate() -> None:
    assert estimate_skews([], reference="broker.log") == {}
    assert (
        estimate_skews([broker(0, Kind.JOIN_COMPLETED, generation=1), client(0, Kind.CLIENT_JOINED, generation=2)], reference="broker.log")
        == {}
    )


def test_a_second_broker_is_compared_by_way_of_a_client_of_both() -> None:
    evidence = joins(500, [10, 20, 30]) + joins(500 - 2_000, [10, 20, 30], broker_clock="other.log", first=10)
    second = [each for each in evidence if each.clock == "other.log"]
    moved = [client(each.at_ms + 500 - 2_000 + 10, Kind.CLIENT_JOINED, generation=each.generation) for each in second]
    skews = estimate_skews([*joins(500, [10, 20, 30]), *second, *moved], reference="broker.log")
    assert skews["client.log"].ahead_ms == 510
    assert abs(skews["other.log"].ahead_ms - 2_000) <= skews["other.log"].uncertain_ms + 10


@pytest.mark.parametrize(
    ("skew", "text"),
    [
        (ClockSkew("client.log", "broker.log", -3_200, 100, 14), "clock of client.log is 3.2 s behind broker.log, ±0.1 s, from 14 events"),
        (ClockSkew("client.log", "broker.log", 90_000, 5, 1), "clock of client.log is 90.0 s ahead of broker.log, ±5 ms, from 1 event"),
        (
            ClockSkew("client.log", "broker.log", -3_600_400, 2, 5),
            "clock of client.log is 3,600.4 s behind broker.log, ±2 ms, from 5 events (another time zone?)",
        ),
        (ClockSkew("client.log", "broker.log", 3, 5, 2_000), "clock of client.log agrees with broker.log within 5 ms, from 2,000 events"),
    ],
)
def test_a_skew_reads_as_a_sentence(skew: ClockSkew, text: str) -> None:
    assert str(skew) == text


@pytest.mark.parametrize("name", ["java-4.3.0", "kafka-python-3.0", "aiokafka-0.14", "librdkafka-2.16"])
def test_logs_of_one_machine_agree(name: str) -> None:
    """The logs of a real run; the one broker and all clients had the same clock."""
    evidence = [
        *broker_log_reader(clock="broker.log", zone=UTC).read_chunk((LOGS / "apache-kafka-4.3.0.log").read_bytes()),
        *client_log_reader(clock=name, zone=UTC).read_chunk((LOGS / f"{name}.log").read_bytes()),
    ]
    skew = estimate_skews(evidence, reference="broker.log")[name]
    assert abs(skew.ahead_ms) <= 20


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
    assert members(left(90_000, 1), said(95_000, trigger=None)) == [None], "a client whose session has expired sends no LeaveGroup"


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
