from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.search import CANDIDATES_MAX, search
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)


def silences(*lengths_ms: int) -> tuple[Action, ...]:
    return tuple(Action(at_ms=30_000 * at, kind=ActionKind.SILENCE, until_ms=30_000 * at + each) for at, each in enumerate(lengths_ms, 1))


def test_the_smallest_session_that_is_enough() -> None:
    group = behaviour(process("a", START, *silences(8_000, 14_000, 22_000)), process("b", START), ended_ms=3_600_000)
    result = search(group, at_most=2)
    assert [option.settings for option in result.front] == [
        Settings(),
        Settings(session_timeout_ms=11_000),
        Settings(session_timeout_ms=18_000),
    ]
    assert [option.outcome.unplanned for option in result.front] == [6, 4, 2]
    assert result.best is result.front[-1]


def test_one_change_is_tried_before_two() -> None:
    actions = (Action(at_ms=30_000, kind=ActionKind.CLOSE), Action(at_ms=34_000, kind=ActionKind.START))
    gap = Action(at_ms=90_000, kind=ActionKind.POLL_GAP, until_ms=105_000)
    group = behaviour(process("a", START, *actions, gap), process("b", START), ended_ms=3_600_000)
    best = search(group, at_most=0).best
    assert best is not None
    # A static member keeps its partitions through both: it stops sending heartbeats after 10 s and is back within its session.
    assert best.settings == Settings(is_static=True)


def test_a_goal_that_is_met_needs_no_change() -> None:
    result = search(behaviour(process("a", START)), at_most=0)
    assert (result.tried, result.best is result.front[0], result.front[0].settings) == (1, True, Settings())


def test_a_goal_that_cannot_be_met_has_no_best() -> None:
    group = behaviour(process("a", START, Action(at_ms=30_000, kind=ActionKind.CRASH)), process("b", START))
    assert search(group, at_most=0).best is None


def test_many_absences_give_few_candidates() -> None:
    lengths = tuple(range(7_000, 27_000, 1_000))
    group = behaviour(process("a", START, *silences(*lengths)), process("b", START), ended_ms=3_600_000)
    assert search(group, at_most=0).tried <= CANDIDATES_MAX + 1
