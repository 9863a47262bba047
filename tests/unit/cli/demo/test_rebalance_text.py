"""A rebalance in words says what the row says, with the doubt that the row has."""

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.cli.demo.rebalance_text import sentence, verdict

Row = Mapping[str, Any]


def test_a_lost_member(rebalance: Row) -> None:
    assert sentence(rebalance) == (
        "consumer-2 sent no heartbeats for its whole session and was removed. Not planned. 392 ms, 4 of 12 partitions moved."
    )


def test_a_leave_that_came_back_is_reported_with_doubt(rebalance: Row) -> None:
    text = sentence({**rebalance, "trigger": "LEAVE", "confidence": "low"})
    assert "a restart, or a poll interval missed" in text
    assert "Not planned, low confidence." in text
    assert "left in order" in sentence({**rebalance, "trigger": "LEAVE", "planned": True, "confidence": "medium"})


def test_what_came_on_the_way_is_named(rebalance: Row) -> None:
    text = sentence({**rebalance, "trigger": "JOIN_NEW", "planned": True, "coalesced": ["JOIN_NEW", "LEAVE"], "partitions_moved": 0})
    assert text == "consumer-2 joined (and JOIN_NEW, LEAVE in the meantime). Planned. 392 ms, no partitions moved."


def test_new_partitions_are_named_unless_all_are(rebalance: Row) -> None:
    grown = {**rebalance, "trigger": "LEADER_REJOIN", "planned": True, "partitions_new": 4}
    assert "as 4 partitions are new" in sentence(grown)
    assert "are new" not in sentence({**grown, "members_before": 0})


@pytest.mark.parametrize(
    ("outcome", "words"), [("emptied", "No member is left."), ("superseded", "No assignments were made (superseded).")]
)
def test_a_round_without_a_plan_costs_no_partitions(rebalance: Row, outcome: str, words: str) -> None:
    assert sentence({**rebalance, "outcome": outcome, "partitions_moved": None, "sync_ms": None}).endswith(words)


def test_an_unknown_trigger_is_named_as_it_is(rebalance: Row) -> None:
    unknown = {**rebalance, "trigger": "CAPACITY"}
    assert sentence(unknown).startswith("consumer-2: CAPACITY.")
    assert verdict({**unknown, "planned": None, "confidence": "low"}) == "planned or not is unknown"
    assert sentence({**unknown, "trigger": None, "client_id": None}).startswith("unknown client: no trigger was seen")
