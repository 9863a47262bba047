from ottla.testing.incidents.plan import ALL
from ottla.testing.whatif_trials.trial import Do
from ottla.testing.whatif_trials.trials import KAFKA, OTTLA, TRIALS


def test_twenty_trials_with_every_client_on_both_brokers() -> None:
    assert len({trial.name for trial in TRIALS}) == len(TRIALS) == 20
    assert {trial.cluster for trial in TRIALS} == {KAFKA, OTTLA}
    assert {client for trial in TRIALS for client in trial.clients} == set(ALL)
    assert {step.do for trial in TRIALS for step in trial.steps} == set(Do)


def test_no_absence_is_near_a_limit() -> None:
    for trial in TRIALS:
        for times in (trial.times, trial.times.changed(trial.change)):
            for step in trial.steps:
                limit_ms = times.max_poll_ms if step.do is Do.SLOW else times.session_ms
                near = step.seconds * 1_000 - limit_ms
                assert step.do is Do.RESTART or abs(near) > 2_500, f"{trial.name}: {near}"
            assert all(step.member < len(trial.clients) for step in trial.steps)
