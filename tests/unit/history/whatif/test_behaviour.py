from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour


def test_the_length_of_an_action() -> None:
    assert Action(at_ms=5, kind=ActionKind.SILENCE, until_ms=12).length_ms == 7
    assert Action(at_ms=5, kind=ActionKind.START).length_ms == 0


def test_a_short_history_does_not_divide_by_zero() -> None:
    behaviour = GroupBehaviour(group="g", started_ms=5, ended_ms=5, protocol="range", processes=(), partition_counts=())
    assert 1 / behaviour.hours == 3_600
