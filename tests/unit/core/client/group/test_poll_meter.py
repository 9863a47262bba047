"""The application's polls: intervals, processing time, idle time."""

from math import isnan

from ottla.core.client.group.poll_meter import PollMeter


def test_two_polls_and_the_records_in_between() -> None:
    polls = PollMeter(0)
    assert polls.began_ms is None
    assert polls.record_ms(0) is None
    assert isnan(polls.idle_ratio(0))
    polls.began(1_000)
    polls.took(4)
    polls.took(6)
    polls.ended(1_100)
    polls.began(1_400)
    assert polls.record_ms(1_400) == 30
    assert polls.intervals.maximum(1_400) == 400
    assert polls.idle_ratio(1_400) == 100 / 400
    assert (polls.began_ms, polls.batch_records) == (1_400, 10)


def test_waiting_in_one_poll_is_no_further_poll() -> None:
    polls = PollMeter(0)
    for now_ms in (0, 500, 1_000):
        polls.began(now_ms)
    polls.ended(1_000)
    polls.began(1_000)
    assert polls.intervals.count == 1
    assert polls.intervals.total == 1_000
    assert polls.idle_ratio(1_000) == 1


def test_polls_without_records_do_not_count_as_processing() -> None:
    polls = PollMeter(0)
    polls.began(0)
    polls.took(2)
    polls.ended(0)
    polls.began(40)
    polls.ended(40)
    polls.began(10_000)
    assert polls.record_ms(10_000) == 20


def test_records_that_were_taken_one_at_a_time_count_for_the_poll_before() -> None:
    polls = PollMeter(0)
    polls.began(0)
    polls.took(1)
    polls.ended(0)
    polls.took(9)
    assert polls.batch_records == 1, "the last poll handed out one"
    polls.began(100)
    assert polls.record_ms(100) == 10
