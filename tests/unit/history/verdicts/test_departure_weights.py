from ottla.history.sources.cause_codes import Cause
from ottla.history.verdicts.departure_weights import ANY_LOSS, AWAY, BACK, OPEN, SILENT


def test_a_return_excludes_no_cause_that_an_absence_allows() -> None:
    assert set(BACK) == set(AWAY) >= set(OPEN)
    assert BACK[Cause.RESTART_DYNAMIC] > AWAY[Cause.RESTART_DYNAMIC]
    assert AWAY[Cause.LEAVE_CLOSE] > BACK[Cause.LEAVE_CLOSE]


def test_silence_is_one_of_the_losses() -> None:
    assert set(SILENT) <= set(ANY_LOSS)
