from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.client_rules import stop_times
from ottla.testing.kit.group_behaviours import POLL_MS, process


def test_heartbeats_stop_with_silences_ends_and_poll_gaps_that_are_too_long() -> None:
    actions = (
        Action(at_ms=0, kind=ActionKind.START),
        Action(at_ms=1_000, kind=ActionKind.POLL_GAP, until_ms=1_000 + POLL_MS),
        Action(at_ms=20_000, kind=ActionKind.POLL_GAP, until_ms=20_001 + POLL_MS),
        Action(at_ms=50_000, kind=ActionKind.SILENCE, until_ms=50_500),
        Action(at_ms=60_000, kind=ActionKind.CLOSE),
    )
    assert stop_times(process("a", *actions)) == [20_000 + POLL_MS, 50_000, 60_000]
