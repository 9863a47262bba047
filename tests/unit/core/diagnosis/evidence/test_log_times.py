"""Times of log lines in the layouts that people have: each gives the same moment."""

from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.diagnosis.evidence.log_times import LogClock

MOMENT_MS = 1_795_357_867_123
"""2026-11-22 14:31:07.123 UTC."""
TO_THE_SECOND_MS = MOMENT_MS - 123


@pytest.mark.parametrize(
    "head",
    [
        "[2026-11-22 14:31:07,123] INFO ",
        "2026-11-22 14:31:07.123 INFO ",
        "2026-11-22T14:31:07.123Z INFO ",
        "2026-11-22T14:31:07,123+00:00 ",
        "[2026-11-22 15:31:07,123 +0100] INFO ",
        "2026-11-22T09:31:07.123456-05:00 INFO ",
        "2026-11-22T14:31:07.123456789Z stdout F ",
        "%4|1795357867.123|MAXPOLL|c#consumer-1| [thrd:main]: ",
        "kafka-1  | [2026-11-22 14:31:07,123] WARN ",
        "[pod/kafka-0/kafka] [2026-11-22 14:31:07,123] INFO ",
        "Nov 22 14:31:07 host kafka-server-start.sh[812]: [2026-11-22 14:31:07,123] INFO ",
    ],
)
def test_the_time_is_found_in_any_layout(head: str) -> None:
    assert LogClock(UTC).find_ms(head) == MOMENT_MS


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8))])
def test_a_collectors_zone_is_taken_for_the_programs_time(zone: tzinfo) -> None:
    """The program in the container has local time, the collector UTC; it may write a little later."""
    assert LogClock(zone).find_ms("2026-11-22T14:31:09.5Z stderr F [2026-11-22 20:16:07,123] INFO ") == MOMENT_MS


def test_a_time_without_fractions_has_whole_seconds() -> None:
    assert LogClock(UTC).find_ms("2026-11-22 14:31:07 INFO ") == TO_THE_SECOND_MS


@pytest.mark.parametrize(
    "head",
    [
        "",
        "14:31:07,123 INFO ",
        "Nov 22 14:31:07 host ",
        "[2026-13-22 14:31:07,123] ",
        "[2026-02-30 14:31:07,123]",
        "2026-99-99T99:99:99Z ",
        "INFO:kafka:",
    ],
)
def test_what_is_no_time_with_a_date_gives_none(head: str) -> None:
    assert LogClock(UTC).find_ms(head) is None


def test_a_time_without_a_zone_is_in_the_given_zone() -> None:
    berlin = LogClock(ZoneInfo("Europe/Berlin"))
    assert berlin.find_ms("[2026-11-22 15:31:07,123] INFO ") == MOMENT_MS
    assert berlin.find_ms("[2026-07-01 12:00:00,000] ") == LogClock(UTC).find_ms("[2026-07-01 10:00:00,000] ")


@given(st.text(max_size=80))
def test_any_text_is_read(head: str) -> None:
    LogClock(UTC).find_ms(head)


@given(st.from_regex(r"\A\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{1,9}( ?Z|[+-]\d\d:?\d\d)?\Z"))
def test_any_digits_are_read(head: str) -> None:
    LogClock(UTC).find_ms(head)
