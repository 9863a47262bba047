from ottla.core.whatif.settings import Settings
from ottla.testing.whatif_trials.trial import Do, MemberTimes, Step, Trial


def test_a_change_applies_to_the_members_settings() -> None:
    times = MemberTimes(max_poll_ms=8_000)
    assert times.changed(Settings(session_timeout_ms=9_000, is_static=True)) == MemberTimes(
        session_ms=9_000, max_poll_ms=8_000, is_static=True
    )
    assert times.changed(Settings()) == times


def test_a_trial_lasts_until_the_longer_session_has_ended() -> None:
    steps = (Step(2, 0, Do.FREEZE, 10),)
    trial = Trial(name="t", cluster="ottla", clients=("java",), steps=steps, change=Settings(session_timeout_ms=16_000))
    assert trial.lasts_s == 2 + 10 + 16 + 4
