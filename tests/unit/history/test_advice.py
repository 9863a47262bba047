"""Settings that will make members leave, and what to set instead."""

import pytest

from ottla.history.advice import ConsumerSettings, advise, idle_or_uneven, record_budget_ms

MINUTE_MS = 60_000


def test_work_of_six_minutes_with_the_default_poll_interval() -> None:
    (advice,) = advise(ConsumerSettings(), work_per_poll_ms=6 * MINUTE_MS)
    assert (advice.setting, advice.value, advice.suggested) == ("max.poll.interval.ms", 5 * MINUTE_MS, 7 * MINUTE_MS)
    assert advice.sentence == (
        "The work on one poll takes 6 min and max.poll.interval.ms is 5 min: the member will leave the group after each such poll. "
        "Set max.poll.interval.ms to 420000 (7 min), or max.poll.records to 416 (5 min / 500 records = 600 ms a record)."
    )


def test_a_sink_that_takes_seven_minutes_needs_eight() -> None:
    (advice,) = advise(ConsumerSettings(), work_per_poll_ms=7 * MINUTE_MS)
    assert advice.suggested == 8 * MINUTE_MS


@pytest.mark.parametrize(("work_ms", "count"), [(299_999, 0), (300_000, 1)])
def test_work_that_fits_is_fine(work_ms: int, count: int) -> None:
    assert len(advise(ConsumerSettings(), work_per_poll_ms=work_ms)) == count


def test_one_slow_record_is_not_helped_by_fewer() -> None:
    (advice,) = advise(ConsumerSettings(max_poll_records=1), work_per_poll_ms=6 * MINUTE_MS)
    assert "max.poll.records to" not in advice.sentence


@pytest.mark.parametrize(("session_ms", "heartbeat_ms", "suggested_ms"), [(6_000, 2_001, 2_000), (10_000, 5_000, 3_333)])
def test_three_heartbeats_fit_into_a_session(session_ms: int, heartbeat_ms: int, suggested_ms: int) -> None:
    (advice,) = advise(ConsumerSettings(session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms))
    assert (advice.setting, advice.suggested) == ("heartbeat.interval.ms", suggested_ms)
    assert f"session.timeout.ms to {3 * heartbeat_ms}." in advice.sentence
    settings = ConsumerSettings(session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms, is_consumer_protocol=True)
    (of_group,) = advise(settings)
    assert (of_group.setting, of_group.suggested) == ("consumer.heartbeat.interval.ms", suggested_ms)
    assert f", or consumer.session.timeout.ms to {3 * heartbeat_ms}." in of_group.sentence


def test_no_session_above_the_maximum_of_brokers() -> None:
    (advice,) = advise(ConsumerSettings(session_timeout_ms=60_000, heartbeat_interval_ms=25_000, is_consumer_protocol=True))
    assert advice.suggested == 20_000
    assert "75000." not in advice.sentence


def test_the_suggested_pair_and_the_defaults_are_fine() -> None:
    assert advise(ConsumerSettings(session_timeout_ms=6_000, heartbeat_interval_ms=2_000)) == ()
    assert advise(ConsumerSettings()) == ()


def test_a_record_may_take_600_ms() -> None:
    assert record_budget_ms(ConsumerSettings()) == 600


@pytest.mark.parametrize(
    ("partitions", "members", "sentence"),
    [
        (24, 8, None),
        (2, 3, "1 of 3 members have nothing to read: there are 2 partitions."),
        (
            10,
            4,
            "10 partitions over 4 members: 2 of them read 3, the others 2. With a whole multiple of 4, 12 say, they would read the same.",
        ),
    ],
)
def test_partitions_are_a_multiple_of_the_members(partitions: int, members: int, sentence: str | None) -> None:
    assert idle_or_uneven(partitions, members) == sentence
