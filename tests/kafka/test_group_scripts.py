"""The same seeded scripts for groups on Ottla and on Apache Kafka: every field of every answer, the group after every step, every record.

Often several requests of a group are under way at once: then the order of their answers, too (see trials.group_scripts.comparison).

150 scripts a run, 300 with `make soak`; `OTTLA_GROUP_SCRIPTS=5000` runs more. KNOWN_DIFFERENCES in
trials.group_scripts.known_differences lists every accepted difference; each that does not depend on chance occurs here.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import OttlaProcess
from ottla.protocol.errors import ErrorCode
from trials.group_scripts.comparison import ComparisonRun
from trials.group_scripts.known_differences import ARBITRARY_LEADER, KNOWN_DIFFERENCES
from trials.group_scripts.player import CONFIG, KAFKA_CONFIG, RUN_IN_ORDER_COMMAND

pytestmark = pytest.mark.kafka

SCRIPTS = int(os.environ.get("OTTLA_GROUP_SCRIPTS", "150"))
SMALL_GROUPS = SCRIPTS // 5
UNREADABLE_SEEDS = (179, 655)
"""In these a rebalance meets a subscription that cannot be read, which is rare."""
SEEDS = sorted({*range(SCRIPTS - SMALL_GROUPS), *UNREADABLE_SEEDS})
GROUP_SIZE_MAX = 3
BATCHES = 10
KINDS = {
    *("join-new", "join-with-id", "join-again", "join-static", "join-static-again", "join-while-parked", "join-pending-as-static"),
    *("join-unknown", "join-old-id", "join-wrong-instance", "join-disjoint", "join-other-type", "join-no-protocols", "join-empty-type"),
    *("join-session-low", "join-session-high", "join-empty-group", "rejoin-leader", "rejoin-same", "rejoin-metadata", "rejoin-order"),
    *("rejoin-fewer", "rejoin-more", "static-bounce", "static-bounce-leader", "static-bounce-changed", "static-bounce-parked"),
    *("sync-leader", "sync-follower", "sync-any-state", "sync-generation", "sync-unknown", "sync-old-id", "sync-wrong-instance"),
    *(
        "sync-type",
        "sync-name",
        "sync-no-protocol",
        "sync-no-assignments",
        "sync-partial-assignments",
        "sync-foreign-member",
        "sync-as-leader",
    ),
    *("heartbeat", "heartbeat-generation", "heartbeat-unknown", "heartbeat-old-id", "heartbeat-wrong-instance", "heartbeat-empty-group"),
    *("leave", "leave-pending", "leave-while-parked", "leave-many", "leave-no-member", "leave-empty-id", "leave-wrong-instance"),
    *("commit", "commit-anonymous", "commit-simple", "commit-generation", "commit-unknown", "commit-old-id", "commit-wrong-instance"),
    *("commit-metadata", "commit-retention", "commit-unknown-topic", "commit-unknown-partition", "commit-new-group"),
    *("fetch", "fetch-all", "fetch-many", "offset-delete", "delete-groups", "delete-topic", "describe", "list", "find"),
    *("expire-pending", "expire-static", "expire-alone", "expire-rebalance"),
}
"""The kinds of steps; each of them occurs, in any version of its API."""


@pytest.fixture(scope="module")
def match(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> ComparisonRun:
    """Every script with groups of any size, all at once, since they mostly wait."""
    return _play(reference, tmp_path_factory.mktemp("any-size"), {}, None, SEEDS)


@pytest.fixture(scope="module")
def small_match(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> ComparisonRun:
    """Every script with groups of limited size."""
    config = {"group.max.size": str(GROUP_SIZE_MAX)}
    return _play(reference, tmp_path_factory.mktemp("small"), config, GROUP_SIZE_MAX, range(1_000_000, 1_000_000 + SMALL_GROUPS))


def _play(reference: Any, directory: Path, config: Mapping[str, str], group_size_max: int | None, seeds: Iterable[int]) -> ComparisonRun:
    kafka = reference.own({**KAFKA_CONFIG, **config})
    try:
        with OttlaProcess(directory / "data", config={**CONFIG, **config}, command=RUN_IN_ORDER_COMMAND) as ottla:
            match = ComparisonRun(kafka.bootstrap_servers, ottla.bootstrap_servers, directory.name, group_size_max=group_size_max)
            match.play(seeds)
            match.compare_records()
    finally:
        reference.end_own()
    return match


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_same_script_has_the_same_answers_and_records(match: ComparisonRun, batch: int) -> None:
    assert match.report([seed for seed in SEEDS if seed % BATCHES == batch]) == ""


def test_groups_of_limited_size(small_match: ComparisonRun) -> None:
    assert small_match.report() == ""
    assert ErrorCode.GROUP_MAX_SIZE_REACHED in small_match.errors


def test_every_known_difference_occurs(match: ComparisonRun, small_match: ComparisonRun) -> None:
    """Except that of leaders: whether Apache Kafka elects the same one depends on its random member ids."""
    assert (match.explained + small_match.explained).keys() | {ARBITRARY_LEADER} == KNOWN_DIFFERENCES.keys()


def test_nearly_every_script_runs_to_its_end(match: ComparisonRun, small_match: ComparisonRun) -> None:
    """On a busy machine some scripts with short timers have no result."""
    too_slow = match.too_slow + small_match.too_slow
    assert len(too_slow) <= SCRIPTS // 20, too_slow


def test_the_order_of_answers_is_compared(match: ComparisonRun, small_match: ComparisonRun) -> None:
    assert match.pairs + small_match.pairs > 3 * SCRIPTS


def test_every_kind_of_step_is_taken(match: ComparisonRun, small_match: ComparisonRun) -> None:
    kinds = (match.kinds + small_match.kinds).keys()
    assert kinds >= KINDS, KINDS - kinds
