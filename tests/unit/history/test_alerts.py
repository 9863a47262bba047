"""Rules for alerts, in virtual time."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.history.alerts import Alerts, GroupFacts, PartitionFacts, decode_firing, encode_firing, parse_rule
from ottla.history.incidents import find_incidents
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import Verdict
from ottla.protocol.model import TopicPartition

T0 = TopicPartition("t", 0)


def facts(lag: int | None = 0, members: int = 1, **more: Any) -> GroupFacts:
    return GroupFacts(**{"members": members, "had_members": True, "lag": lag} | more)


def test_the_grammar() -> None:
    rule = parse_rule("lag > 10000 for 60s of payments-*")
    assert (rule.condition, rule.above, rule.for_ms, rule.group) == ("lag", 10_000, 60_000, "payments-*")
    rule = parse_rule("lag > 5m")
    assert (rule.condition, rule.above, rule.for_ms, rule.group) == ("time lag", 300_000, 0, "*")
    rule = parse_rule("incident restart, incomplete of my group")
    assert (rule.kind, rule.group) == ("restart, incomplete", "my group")
    assert (parse_rule("incident").kind, parse_rule("incident of g").kind) == (None, None)
    rule = parse_rule("unplanned rebalances > 3 in 10m of a")
    assert (rule.condition, rule.above, rule.within_ms, rule.group) == ("unplanned rebalances", 3, 600_000, "a")
    assert (parse_rule("stuck").for_ms, parse_rule("stuck for 2m").for_ms, parse_rule("no members").for_ms) == (60_000, 120_000, 0)
    assert parse_rule(" unreachable for 1m ").text == "unreachable for 1m"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lag", "is no rule: write"),
        ("lag > ten", "is no rule"),
        ("lag > 5 parsecs", "is no length of time"),
        ("incident meteor", "no kind of incident: there are broker outage, coordinator move, mass loss"),
        ("incident restart for 5s", '"for" belongs to'),
        ("unplanned rebalances > 3", "is no rule"),
        ("unreachable of g", "is about the cluster"),
        ("", "is no rule"),
    ],
)
def test_what_is_no_rule(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_rule(text)


def run(rule: str, *looks: tuple[int, Any], alerts: Alerts | None = None) -> list[tuple[int, str, bool]]:
    """What fires and ends: at which time, for which group."""
    alerts = alerts or Alerts([parse_rule(rule)])
    found = []
    for at_ms, groups in looks:
        groups = groups if isinstance(groups, dict) else {"g": groups}
        found += [(event.at_ms, event.group, event.is_firing) for event in alerts.evaluate(at_ms, groups)]
    return found


def test_lag_for_a_time_fires_once_and_ends_once() -> None:
    looks = [(at, facts(lag)) for at, lag in [(0, 11), (5, 11), (9, 5), (10, 11), (19, 11), (20, 12), (30, 99), (40, 10), (50, 1)]]
    assert run("lag > 10 for 10ms", *looks) == [(20, "g", True), (40, "g", False)]


def test_an_unknown_lag_changes_nothing() -> None:
    assert run("lag > 10", (0, facts(None)), (1, facts(11)), (2, facts(None)), (3, None), (4, facts(11)), (5, facts(0))) == [
        (1, "g", True),
        (5, "g", False),
    ]


def test_time_lag() -> None:
    assert run("lag > 5s", (0, facts(lag_ms=None)), (1, facts(lag_ms=5_000)), (2, facts(lag_ms=5_001))) == [(2, "g", True)]


def test_groups_by_pattern_and_groups_that_are_gone() -> None:
    both = {"pay-1": facts(11), "other": facts(11)}
    assert run("lag > 10 of pay-*", (0, both), (1, {"other": facts(11)})) == [(0, "pay-1", True), (1, "pay-1", False)]


def test_no_members_is_said_of_groups_that_had_some() -> None:
    never = facts(members=0, had_members=False)
    assert run(
        "no members for 5ms", (0, {"g": facts(members=0), "offsets-only": never}), (5, {"g": facts(members=0), "offsets-only": never})
    ) == [(5, "g", True)]


def test_few_members() -> None:
    assert parse_rule("members < 3 for 1m of orders").group == "orders"
    looks = [(0, facts(members=3)), (1, facts(members=2)), (6, facts(members=0)), (7, facts(members=2)), (8, facts(members=3))]
    assert run("members < 3 for 5ms", *looks) == [(6, "g", True), (8, "g", False)]


def test_incidents(verdict: Callable[..., Verdict]) -> None:
    (lost,) = find_incidents([verdict(Cause.EXPIRE_HEARTBEAT, "c", 0)])
    (scaling,) = find_incidents([verdict(Cause.JOIN_NEW, "c", 0)])
    open_, planned, none = facts(incidents=[lost]), facts(incidents=[scaling]), facts()
    assert run("incident lost member", (0, planned), (1, open_), (2, open_), (3, none)) == [(1, "g", True), (3, "g", False)]
    assert run("incident", (0, planned), (1, open_)) == [(1, "g", True)]
    assert run("incident scaling", (0, planned)) == [(0, "g", True)]
    (event,) = Alerts([parse_rule("incident")]).evaluate(7, {"g": open_})
    assert event.to_dict() == {
        "id": "incident/g/7",
        "status": "firing",
        "rule": "incident",
        "group": "g",
        "since_ms": 7,
        "at_ms": 7,
        "text": "lost member of c (confidence high)",
        "details": {
            "kind": "lost member",
            "groups": ["g"],
            "culprits": ["c"],
            "started_ms": 0,
            "planned": False,
            "confidence": "high",
            "rebalances": 1,
        },
    }


def test_unplanned_rebalances_in_a_sliding_time() -> None:
    looks = [(at, facts(unplanned_ms=(0, 400, 800))) for at in (900, 1_000, 1_001)]
    assert run("unplanned rebalances > 2 in 1s", *looks) == [(900, "g", True), (1_001, "g", False)]


def partition(committed: int, lag: int, members: int = 1) -> GroupFacts:
    return facts(lag, members, partitions={T0: PartitionFacts(committed, lag)})


def test_stuck_is_lag_that_grows_without_a_commit() -> None:
    growing = [(at, partition(5, at)) for at in range(1, 30, 4)]
    assert run("stuck for 10ms", *growing) == [(13, "g", True)]
    assert run("stuck for 10ms", *[(at, partition(at, at)) for at in range(30)]) == []  # it commits
    assert run("stuck for 10ms", *[(at, partition(5, 7)) for at in range(30)]) == []  # nothing new is written
    assert run("stuck for 10ms", *[(at, partition(5, at, members=0)) for at in range(30)]) == []


def test_stuck_ends_with_a_commit_alone() -> None:
    alerts = Alerts([parse_rule("stuck for 10ms")])
    looks = [(0, partition(5, 1)), (10, partition(5, 2)), (20, partition(5, 2)), (40, partition(5, 2)), (41, partition(6, 1))]
    assert run("", *looks, alerts=alerts) == [(10, "g", True), (41, "g", False)]


@pytest.mark.parametrize(
    ("rule", "before", "still", "end"),
    [
        ("lag > 10 for 1m", facts(11), facts(12), facts(3)),
        ("no members for 1m", facts(members=0), facts(members=0, had_members=False), facts(members=1)),
        ("stuck for 1m", partition(5, 2), partition(5, 9), partition(7, 7)),
    ],
)
def test_a_restart_repeats_nothing(rule: str, before: GroupFacts, still: GroupFacts, end: GroupFacts) -> None:
    first = Alerts([parse_rule(rule)])
    assert run("", (0, partition(5, 1) if rule.startswith("stuck") else before), (60_000, before), alerts=first) == [(60_000, "g", True)]
    again = Alerts([parse_rule(rule)], decode_firing(encode_firing(first.firing)))
    assert run("", (70_000, still), (71_000, still), (90_000, end), alerts=again) == [(90_000, "g", False)]
    assert again.firing == {}
    assert Alerts([parse_rule("lag > 1")], first.firing).firing == {}  # the rule is not given any more


def test_a_cluster_that_does_not_respond() -> None:
    alerts = Alerts([parse_rule("unreachable for 10ms"), parse_rule("lag > 1")])
    assert [event.is_firing for event in alerts.evaluate(0, {"g": facts(5)})] == [True]
    assert alerts.evaluate_unreachable(5, "no broker answers") == []
    (event,) = alerts.evaluate_unreachable(15, "no broker answers")
    assert (event.to_dict()["group"], event.text) == (None, "no broker answers")
    assert alerts.evaluate_unreachable(30, "no broker answers") == []
    assert [(event.rule, event.is_firing) for event in alerts.evaluate(31, {"g": facts(5)})] == [("unreachable for 10ms", False)]
