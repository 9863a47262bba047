"""The same seeded scripts for groups on Ottla and on Apache Kafka: every field of every answer, the group after every step, every record.

300 scripts a run; `OTTLA_GROUP_SCRIPTS=5000` plays more. The differences that have a reason are EXPLAINED in
ottla.testing.group_scripts_explained, all of them; each occurs here.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.group_scripts_explained import EXPLAINED
from ottla.testing.group_scripts_match import Match
from ottla.testing.group_scripts_play import CONFIG, KAFKA_CONFIG
from ottla.testing.ottla_process import OttlaProcess

pytestmark = pytest.mark.kafka

SCRIPTS = int(os.environ.get("OTTLA_GROUP_SCRIPTS", "300"))
SMALL_GROUPS = SCRIPTS // 5
GROUP_SIZE_MAX = 3
BATCHES = 5


@pytest.fixture(scope="module")
def match(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Match]:
    """Both brokers with settings of their own, for all batches of this module."""
    yield from _match(reference, tmp_path_factory.mktemp("ottla"), {}, None)


def _match(reference: Any, directory: Path, config: Mapping[str, str], group_size_max: int | None) -> Iterator[Match]:
    kafka = reference.own({**KAFKA_CONFIG, **config})
    with OttlaProcess(directory / "data", config={**CONFIG, **config}) as ottla:
        yield Match(kafka.bootstrap_servers, ottla.bootstrap_servers, directory.name, group_size_max=group_size_max)
    reference.end_own()


def _check(match: Match) -> None:
    match.compare_records()
    assert match.report() == ""
    assert match.explained.keys() <= EXPLAINED.keys()
    # On a machine that is far too busy some scripts with short timers say nothing; most have to.
    assert len(match.too_slow) <= len(match.outcomes) // 20, match.too_slow


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_same_script_has_the_same_answers_and_records(match: Match, batch: int) -> None:
    match.play(range(batch, SCRIPTS - SMALL_GROUPS, BATCHES))
    _check(match)


def test_every_explained_difference_occurs(match: Match) -> None:
    assert match.explained.keys() == EXPLAINED.keys()


def test_groups_of_limited_size(match: Match, reference: Any, tmp_path: Path) -> None:
    for small in _match(reference, tmp_path, {"group.max.size": str(GROUP_SIZE_MAX)}, GROUP_SIZE_MAX):
        small.play(range(1_000_000, 1_000_000 + SMALL_GROUPS))
        _check(small)
