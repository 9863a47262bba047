import pytest

from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.setting_advice import Situation, advice_for


def situation(
    *, who: Identity | None = None, returned: Identity | None = None, is_consumer_type: bool = False, back: bool = True, **figures: int
) -> Situation:
    return Situation(figures, who, returned, is_consumer_type, back)


def test_a_session_that_outlasts_the_silence() -> None:
    (advice,) = advice_for(Cause.EXPIRE_HEARTBEAT, situation(session_timeout_ms=6_000, absence_ms=4_000))
    assert (advice.setting, advice.value) == ("session.timeout.ms", "15000")
    assert "6 s (its session) + 4 s = 10 s" in advice.sentence
    assert "15 s" in (advice.warning or "")


def test_the_settings_of_kip_848_have_other_names() -> None:
    (advice,) = advice_for(Cause.EXPIRE_HEARTBEAT, situation(is_consumer_type=True, session_timeout_ms=6_000, absence_ms=4_000))
    assert advice.setting == "group.consumer.session.timeout.ms"


def test_a_poll_interval_above_the_work_of_the_article() -> None:
    (advice,) = advice_for(Cause.POLL_TIMEOUT, situation(max_poll_interval_ms=300_000, exceeded_by_ms=120_000))
    assert (advice.setting, advice.value) == ("max.poll.interval.ms", "480000")
    assert "5 min + 2 min = 7 min" in advice.sentence
    assert "max.poll.records to 70 %" in advice.sentence


def test_what_the_member_measured_comes_first() -> None:
    reason = "consumer poll timeout has expired. [slow processing: no poll for 6001 ms, 412 records at 14.6 ms each]"
    known = situation(max_poll_interval_ms=300_000, exceeded_by_ms=120_000)._replace(reason=reason)
    (advice,) = advice_for(Cause.POLL_TIMEOUT, known)
    assert advice.sentence.startswith(
        "The member measured slow processing: no poll for 6001 ms, 412 records at 14.6 ms each. One poll's work took"
    )
    (advice,) = advice_for(Cause.EXPIRE_HEARTBEAT, situation()._replace(reason="x [network: no heartbeat answered for 7000 ms]"))
    assert advice.sentence.startswith("The member measured network: no heartbeat answered for 7000 ms. The member was silent")


def test_a_process_that_did_not_run_did_not_process_for_too_long() -> None:
    known = situation(max_poll_interval_ms=300_000, exceeded_by_ms=1)._replace(reason="x [process stopped: no poll for 300001 ms]")
    (advice,) = advice_for(Cause.POLL_TIMEOUT, known)
    assert "Its records did not take too long" in advice.sentence
    assert "max.poll.records" not in advice.sentence


def test_static_membership_warns_of_names_that_rotate() -> None:
    pod, other = Identity("m", None, "orders-6d4cf56db6-x7k2p", "/10.0.0.1"), Identity("n", None, "orders-6d4cf56db6-q9z4d", "/10.0.0.2")
    advice = advice_for(Cause.RESTART_DYNAMIC, situation(who=pod, returned=other, session_timeout_ms=45_000, absence_ms=8_000))
    assert [each.setting for each in advice] == ["group.instance.id"]
    assert "StatefulSet" in (advice[0].warning or "")
    assert "ReplicaSet?" in (advice[0].warning or "")


def test_a_restart_longer_than_the_session_needs_a_longer_session_too() -> None:
    advice = advice_for(Cause.RESTART_DYNAMIC, situation(who=Identity("m", None, "w1"), session_timeout_ms=6_000, absence_ms=9_000))
    assert [(each.setting, each.value) for each in advice][1] == ("session.timeout.ms", "20000")


@pytest.mark.parametrize("cause", Cause)
def test_advice_is_whole_sentences_whatever_is_known(cause: Cause) -> None:
    for known in (
        situation(),
        situation(back=False),
        situation(late_starters=1),
        situation(who=Identity("m", "i"), group_size=4, max_poll_interval_ms=1),
    ):
        for advice in advice_for(cause, known):
            assert advice.sentence.endswith(".")
            assert advice.setting


def test_a_session_that_no_source_shows_is_not_made_up() -> None:
    (advice,) = advice_for(Cause.EXPIRE_HEARTBEAT, situation(absence_ms=3_200))
    assert advice.value is None
    assert "a session.timeout.ms longer by 4 s would" in advice.sentence
    assert "45 s" not in advice_for(Cause.RESTART_DYNAMIC, situation(absence_ms=3_200))[0].sentence


def test_no_session_of_minutes_is_advised() -> None:
    for cause in (Cause.RESTART_DYNAMIC, Cause.EXPIRE_HEARTBEAT):
        advice = advice_for(cause, situation(session_timeout_ms=10_000, absence_ms=129_000))
        assert not any(each.value for each in advice if each.setting == "session.timeout.ms")
        assert "260" not in advice[0].sentence


CONSUMER_SESSION = "group.consumer.session.timeout.ms"


@pytest.mark.parametrize(
    ("session_ms", "absence_ms", "value", "said"),
    [
        (45_000, 2_000, "60000", ""),
        (45_000, 10_000, "60000", "1 min at most"),
        (45_000, 30_000, None, "raise both"),
        (90_000, 10_000, "125000", ""),
    ],
)
def test_a_session_of_the_consumer_protocol_is_one_that_brokers_allow(
    session_ms: int, absence_ms: int, value: str | None, said: str
) -> None:
    known = situation(is_consumer_type=True, session_timeout_ms=session_ms, absence_ms=absence_ms)
    (advice,) = advice_for(Cause.EXPIRE_HEARTBEAT, known)
    assert (advice.setting, advice.value) == (CONSUMER_SESSION, value)
    assert said in advice.sentence
    assert ("group.consumer.max.session.timeout.ms" in advice.sentence) is bool(said)


def test_a_restart_longer_than_any_session_that_brokers_allow() -> None:
    for absence_ms, value in ((50_000, "60000"), (70_000, None)):
        known = situation(is_consumer_type=True, session_timeout_ms=45_000, absence_ms=absence_ms)
        static, session = advice_for(Cause.RESTART_DYNAMIC, known)
        assert (static.setting, session.setting, session.value) == ("group.instance.id", CONSUMER_SESSION, value)
        assert "Brokers allow 1 min at most" in session.sentence
    classic = advice_for(Cause.RESTART_DYNAMIC, situation(session_timeout_ms=45_000, absence_ms=50_000))
    assert classic[1].value == "100000"
