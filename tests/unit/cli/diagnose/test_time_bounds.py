from datetime import UTC, timedelta, timezone

import pytest

from ottla.cli.diagnose.time_bounds import parse_time_ms

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
