"""DescribeGroups: unknown groups, and what a stable group shows."""

from typing import Any

from ottla.core.errors import ErrorCode

E = ErrorCode


def test_an_unknown_group_is_dead_and_newer_clients_get_an_error(driver: Any) -> None:
    new = driver.answer("describe g")
    assert (new.error, new.state, new.error_message) == (E.GROUP_ID_NOT_FOUND, "Dead", "Group g not found.")
    old = driver.answer("describe g old=yes")
    assert (old.error, old.state, old.error_message) == (E.NONE, "Dead", None)


def test_a_stable_group_is_described_in_full(driver: Any) -> None:
    described = driver.in_state("Stable").answer("describe g")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    first = described.members[0]
    assert (first.member_id, first.client_id, first.client_host) == ("m1", "client", "/127.0.0.1")
    assert first.metadata
    assert first.assignment
