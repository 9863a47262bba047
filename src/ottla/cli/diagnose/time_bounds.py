"""Points in time as `--since` and `--until` take them: ISO 8601, or how long ago."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_AGO: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d|w)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time_ms(text: str, *, now_ms: int, zone: tzinfo) -> int:
    """Milliseconds since 1970 of `2026-11-22T14:31`, `2026-11-22 14:31:07+01:00`, `2026-11-22`, `14:31` (today), or `2h` (ago).

    `zone` is for times that name none. Raises ValueError with what to write instead.
    """
    text = text.strip()
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(ago[1]) * _UNITS_MS[ago[2]]
    today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    for candidate in (text, f"{today}T{text}"):
        try:
            moment = datetime.fromisoformat(candidate)
            zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
            return (zoned - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            continue
    raise ValueError(f"{text!r} is no time: write 2026-11-22T14:31, 14:31, or how long ago, such as 30m, 2h or 3d")
