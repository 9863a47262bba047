"""A member of a classic group: metadata, votes, sessions that count, and the member that a record contains."""

import pytest

from ottla.core.groups.classic.member import Member, member_from_value
from ottla.core.groups.log.records import MemberValue


def member(*protocols: tuple[str, bytes]) -> Member:
    return Member(
        "g",
        "m1",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=protocols,
        now_ms=0,
    )


def test_metadata_is_that_of_the_protocol() -> None:
    one = member(("range", b"r"), ("sticky", b"s"))
    assert (one.metadata("sticky"), one.metadata("other"), one.metadata(None)) == (b"s", b"", b"")


def test_a_member_votes_for_its_first_candidate() -> None:
    one = member(("range", b""), ("sticky", b""), ("other", b""))
    assert one.vote({"other", "sticky"}) == "sticky"
    with pytest.raises(AssertionError):
        one.vote({"unknown"})


def test_a_new_member_does_not_count_as_alive_while_it_is_parked() -> None:
    one = member()
    assert not one.counts_as_alive
    one.awaiting_join = 1
    assert one.counts_as_alive
    one.is_new = True
    assert not one.counts_as_alive


def test_a_member_that_waits_for_its_assignment_counts_as_alive() -> None:
    one = member()
    one.awaiting_sync = 1
    assert one.counts_as_alive


def test_a_record_contains_the_metadata_of_one_protocol() -> None:
    value = MemberValue(
        member_id="m1",
        instance_id="i1",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=b"topics",
        assignment=b"parts",
    )
    loaded = member_from_value("g", "range", value, timer_ms=5)
    assert (loaded.member_id, loaded.instance_id, loaded.protocols) == ("m1", "i1", (("range", b"topics"),))
    assert (loaded.assignment, loaded.is_loaded, loaded.last_seen_ms) == (b"parts", True, 5)
