"""Joins: again, changed, with a wrong identity, refused."""

from typing import Any

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.join_moves import join_invalid, join_wrong, rejoin, rejoin_changed, static_bounce


def test_kinds(kinds_of: Any) -> None:
    found = kinds_of([rejoin, rejoin_changed, static_bounce, join_wrong, join_invalid])
    assert {
        "rejoin-leader",
        "rejoin-same",
        "rejoin-order",
        "static-bounce",
        "join-unknown",
        "join-session-low",
        "join-disjoint",
    } <= found.keys(), sorted(found)
    assert {step.api for step in found.values()} == {ApiKey.JOIN_GROUP}
