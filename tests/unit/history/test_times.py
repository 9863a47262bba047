"""Time zones by name, by offset, and of the machine."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from ottla.history import times as time_zones
from ottla.history.times import machine_zone, parse_time_ms, parse_zone

NOW_MS = 1_795_357_867_000  # 2026-11-22T14:31:07Z


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2h", NOW_MS - 7_200_000),
        ("30m", NOW_MS - 1_800_000),
        ("250ms", NOW_MS - 250),
        ("2026-11-22T14:31:07Z", NOW_MS),
        ("2026-11-22 15:31:07+01:00", NOW_MS),
        ("2026-11-22", NOW_MS - (14 * 3600 + 31 * 60 + 7) * 1000),
        (" 14:31:07 ", NOW_MS),
    ],
)
def test_a_time_is_iso_8601_or_how_long_ago(text: str, at_ms: int) -> None:
    assert parse_time_ms(text, now_ms=NOW_MS, zone=UTC) == at_ms


def test_a_time_without_a_zone_is_of_the_given_one() -> None:
    assert parse_time_ms("2026-11-22T15:31:07", now_ms=0, zone=timezone(timedelta(hours=1))) == NOW_MS


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "5 parsecs", "0001-01-01T00:00+14:00x"])
def test_what_is_no_time_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write 2026-11-22T14:31"):
        parse_time_ms(text, now_ms=NOW_MS, zone=UTC)


SUMMER = datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    ("text", "hours"), [("Europe/Berlin", 2), ("UTC", 0), ("z", 0), ("+02:00", 2), ("-0330", -3.5), ("+5", 5), ("UTC+01:00", 1)]
)
def test_zones(text: str, hours: float) -> None:
    assert parse_zone(text).utcoffset(SUMMER) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "Mars/Olympus", "+99:00", "../etc/passwd", "noon", "\0"])
def test_what_is_no_zone_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write a name such as Europe/Berlin"):
        parse_zone(text)


def test_the_machines_zone_is_that_of_tz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":America/New_York")
    assert machine_zone().utcoffset(SUMMER) == timedelta(hours=-4)


def test_the_machines_zone_is_that_of_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", "Mars/Olympus")
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    monkeypatch.setattr(time_zones, "LOCAL_TIME", tmp_path / "localtime")
    assert machine_zone().utcoffset(SUMMER) == timedelta(hours=9)
    (tmp_path / "timezone").write_text("Asia/Kolkata\n")
    monkeypatch.setattr(time_zones, "LOCAL_TIME", tmp_path / "none")
    monkeypatch.setattr(time_zones, "TIME_ZONE", tmp_path / "timezone")
    assert machine_zone().utcoffset(SUMMER) == timedelta(hours=5.5)


def test_a_machine_without_zones_has_the_offset_of_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zones, "LOCAL_TIME", tmp_path / "none")
    monkeypatch.setattr(time_zones, "TIME_ZONE", tmp_path / "none")
    assert machine_zone().utcoffset(SUMMER) == datetime.now(UTC).astimezone().utcoffset()
