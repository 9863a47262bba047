"""What the cleaner's figures say about its state."""

import pytest

from ottla.broker.logs.cleaner_snapshot import CleanerSnapshot
from ottla.core.diagnosis.cleaner_health import CleanerState
from ottla.core.model import TopicPartition


@pytest.mark.parametrize(
    ("is_enabled", "threads", "dead_threads", "state"),
    [
        (False, 1, 0, CleanerState.OFF),
        (True, 2, 1, CleanerState.RUNNING),
        (True, 2, 2, CleanerState.DEAD),
        (True, 0, 0, CleanerState.RUNNING),
    ],
)
def test_its_state(is_enabled: bool, threads: int, dead_threads: int, state: CleanerState) -> None:
    assert CleanerSnapshot(is_enabled=is_enabled, threads=threads, dead_threads=dead_threads).state is state


def test_it_is_idle_from_its_last_check_while_it_cleans_nothing() -> None:
    snapshot = CleanerSnapshot(is_enabled=True, looked_ms=100, cleaned_ms=40)
    facts = snapshot.facts(130)
    assert (facts.idle_ms, facts.since_cleaned_ms) == (30, 90)
    assert snapshot.facts(50).idle_ms == 0
    busy = CleanerSnapshot(is_enabled=True, looked_ms=100, at_work=(TopicPartition("t", 0),))
    assert (busy.facts(130).idle_ms, busy.facts(130).since_cleaned_ms) == (0, None)
