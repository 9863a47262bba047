from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.comparison import compare
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
GROUP = behaviour(
    process("a", START, Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000), Action(at_ms=60_000, kind=ActionKind.CRASH)),
    process("b", START, Action(at_ms=100_000, kind=ActionKind.POLL_GAP, until_ms=115_000)),
)


def test_a_longer_session_saves_the_silence_and_not_the_crash_which_is_noticed_later() -> None:
    found = compare(GROUP, Settings(session_timeout_ms=15_000))
    assert [(each.process, each.at_ms) for each in found.gone] == [("a", 26_000), ("a", 28_000)]
    assert found.new == ()
    assert found.after.waiting_ms > found.before.waiting_ms
    assert any("wait longer" in each for each in found.warnings)


def test_a_shorter_session_has_new_rebalances() -> None:
    group = behaviour(process("a", START, Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=25_000)), process("b", START))
    found = compare(group, Settings(session_timeout_ms=3_000))
    assert (len(found.gone), [each.at_ms for each in found.new]) == (0, [23_000, 25_000])


def test_nothing_set_changes_nothing() -> None:
    found = compare(GROUP, Settings())
    assert found.before == found.after
    assert (found.gone, found.new, found.warnings) == ((), (), ())
