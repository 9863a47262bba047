from dataclasses import replace

import pytest

from ottla.history.whatif.behaviour import Action, ActionKind
from ottla.history.whatif.prediction import compare
from ottla.history.whatif.settings import Settings
from tests.support.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
CLOSED = process("pod-x1", START, Action(at_ms=50_000, kind=ActionKind.CLOSE))
SUCCESSOR = process("pod-y2", Action(at_ms=58_000, kind=ActionKind.START))
SILENT = process("a", START, Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000, uncertain_ms=2_300))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(is_static=True), "closed for good"),
        (Settings(is_static=True), "rotating pod names"),
        (Settings(session_timeout_ms=9_000), "a silence of 8.0 to 10.3 s: it may exceed 9000 ms"),
        (Settings(session_timeout_ms=5_000), "below the recorded 6000"),
        (Settings(session_timeout_ms=5_000), "refused by a broker"),
        (Settings(max_poll_interval_ms=5_000), "max.poll.interval.ms=5000 is below"),
        (Settings(session_timeout_ms=7_000), "shorter than 3 heartbeats of 3000 ms"),
        (Settings(heartbeat_interval_ms=2_500), "shorter than 3 heartbeats of 2500 ms"),
        (Settings(assignor="cooperative-sticky"), "two rolling restarts"),
    ],
)
def test_each_way_to_backfire_is_said(settings: Settings, said: str) -> None:
    found = compare(behaviour(CLOSED, SUCCESSOR, SILENT), settings)
    assert any(said in each for each in found.warnings), found.warnings


def test_a_change_without_risk_has_no_warning() -> None:
    group = behaviour(SILENT, process("b", START))
    assert compare(group, Settings(max_poll_interval_ms=20_000)).warnings == ()
    assert compare(replace(group, processes=()), Settings(session_timeout_ms=30_000)).warnings == ()
