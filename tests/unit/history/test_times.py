"""Time zones by name, by offset, and of the machine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.cli.diagnose import time_zones
from ottla.cli.diagnose.time_zones import machine_zone, parse_zone

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
