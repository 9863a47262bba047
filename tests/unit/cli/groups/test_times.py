"""Points and spans of time as text."""

import pytest

from ottla.cli.clusters import CommandFailed
from ottla.cli.groups.times import parse_datetime_ms, parse_duration_ms

AT_MS = 1_600_000_010_000
"""2020-09-13T12:26:50 UTC."""


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2020-09-13T12:26:50.000", AT_MS),
        ("2020-09-13T12:26:50.123Z", AT_MS + 123),
        ("2020-09-13T12:26:50.5", AT_MS + 5),
        ("2020-09-13T14:26:50.000+02:00", AT_MS),
        ("2020-09-13T14:26:50.000+0200", AT_MS),
        ("2020-09-13T14:26:50.000+02", AT_MS),
        ("2020-09-13T06:56:50.000-05:30", AT_MS),
        ("1970-01-01T00:00:00.000", 0),
    ],
)
def test_points_in_time(text: str, at_ms: int) -> None:
    assert parse_datetime_ms(text) == at_ms


@pytest.mark.parametrize("text", ["nonsense", "2020-09-13", "2020-09-13T", ""])
def test_a_point_in_time_has_a_t(text: str) -> None:
    with pytest.raises(CommandFailed, match="does not contain a 'T' according to ISO8601 format"):
        parse_datetime_ms(text)


@pytest.mark.parametrize("text", ["2020-09-13T12:26:50", "2020-09-13T12:26", "2020-13-13T12:26:50.000", "2020-09-13T25:00:00.000", "xTy"])
def test_points_that_are_none(text: str) -> None:
    with pytest.raises(CommandFailed, match=r'java\.text\.ParseException: Unparseable date: "'):
        parse_datetime_ms(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H", 3_600_000),
        ("P2DT3H4M5S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_000),
        ("PT0.5S", 500),
        ("PT-1.5S", -1_500),
        ("-PT1H", -3_600_000),
        ("PT-30M", -1_800_000),
        ("pt1m", 60_000),
        ("PT1.123456789S", 1_123),
    ],
)
def test_spans_of_time(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "P1Y", "P1M", "1H", "PT1", "nonsense", "PT" + "9" * 5000 + "S"])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(CommandFailed, match="Text cannot be parsed to a Duration"):
        parse_duration_ms(text)
