"""A comparison of the broker with itself finds no difference; with one that answers wrongly, every wrong answer."""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.testing.group_scripts.comparison_run import ComparisonRun, make_topics, read_group_records
from ottla.testing.group_scripts.player import CONFIG, Player
from ottla.testing.group_scripts.script import Script

SEEDS = (3, 5, 8)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    """On asyncio's own loop, which writes responses in the order in which they are made."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "uvloop", None)
        with Broker(config=dict(CONFIG)) as one, Broker(config=dict(CONFIG)) as other:
            yield one.bootstrap_servers, other.bootstrap_servers


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch, brokers: tuple[str, str]) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    """`lies(change)` lets the second broker's answers be changed before they are compared."""

    def lie(change: Callable[[dict[str, Any]], None]) -> None:
        honest = Player._comparable

        def said(player: Player, answer: Any) -> Any:
            masked = honest(player, answer)
            if player.bootstrap_servers == brokers[1]:
                change(masked)
            return masked

        monkeypatch.setattr(Player, "_comparable", said)

    return lie


def test_a_broker_does_not_differ_from_itself(brokers: tuple[str, str]) -> None:
    match = ComparisonRun(*brokers, "self", threads=3)
    match.play(SEEDS)
    match.compare_records()
    assert match.report() == ""
    assert match.too_slow == []
    assert sum(match.kinds.values()) > 30
    assert match.explained.keys() == set()
    assert match.pairs > 10


def test_a_wrong_response_is_found_with_its_step(brokers: tuple[str, str], lies: Any) -> None:
    lies(lambda answer: answer.update(generation_id=7) if "generation_id" in answer else None)
    match = ComparisonRun(*brokers, "lie", threads=3)
    match.play(SEEDS)
    report = match.report()
    assert "generation_id: 7 and should be" in report
    assert "seed 3:" in report
    assert "(join" in report


def test_responses_in_another_order_are_found(brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Player.settle

    def settle(player: Player) -> dict[int, Any]:
        answers = honest(player)
        return dict(reversed(answers.items())) if player.bootstrap_servers == brokers[1] else answers

    monkeypatch.setattr(Player, "settle", settle)
    match = ComparisonRun(*brokers, "order", threads=3)
    match.play(SEEDS)
    assert re.search(r"step \d+ \(\S+\) is answered before step \d+ \(\S+\) and should be answered after it", match.report())


def test_records_that_differ_are_found(brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    match = ComparisonRun(*brokers, "records", threads=3)
    match.play(SEEDS)
    read = read_group_records

    def read_without_the_last(bootstrap_servers: str) -> Any:
        found = read(bootstrap_servers)
        if bootstrap_servers == brokers[1]:
            found["records-3-0"].pop()
        return found

    monkeypatch.setattr("ottla.testing.group_scripts.comparison_run.read_group_records", read_without_the_last)
    match.compare_records()
    assert "records of records-3-0" in match.report()
    assert [outcome.seed for outcome in match.outcomes if outcome.differences] == [3]


def test_topics_are_created_once(brokers: tuple[str, str]) -> None:
    first = make_topics(brokers[0], {"once": 2})
    assert make_topics(brokers[0], {"once": 2}) == first


def test_scripts_use_the_topic_that_they_delete() -> None:
    own = [script.own_topic for seed in range(60) if (script := Script(seed, "g")).own_topic]
    assert own
    assert set(own) == {"g-gone"}
