"""Points in time and time zones as people write them (`2026-11-22T14:31`, `2h`, `Europe/Berlin`), and the zone of this machine."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_AGO: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d|w)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `30s`, `10m`, `2h` or `7d`. Raises ValueError with what to write instead."""
    matched = _AGO.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"{text!r} is no length of time: write a number and ms, s, m, h, d or w, such as 30s or 7d")
    return int(matched[1]) * _UNITS_MS[matched[2]]


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


OFFSET: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2}):?(\d\d)?")
LOCAL_TIME: Final = Path("/etc/localtime")
TIME_ZONE: Final = Path("/etc/timezone")


def parse_zone(text: str) -> tzinfo:
    """A zone by its name (`Europe/Berlin`), `UTC`, or its offset (`+02:00`). Raises ValueError with what to write instead."""
    offset = OFFSET.fullmatch(text)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return UTC if text.upper() in ("UTC", "Z") else ZoneInfo(text)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"{text!r} is no time zone: write a name such as Europe/Berlin, or an offset such as +02:00") from error


def machine_zone() -> tzinfo:
    """The zone of this machine, by its name with its summer times: of TZ, /etc/localtime, /etc/timezone; else the offset of now."""
    for name in (os.environ.get("TZ", "").removeprefix(":"), *_names_of_files()):
        if name:
            try:
                return parse_zone(name)
            except ValueError:
                continue
    return datetime.now(UTC).astimezone().tzinfo or UTC  # noqa: TID251 - the machine is asked, once


def _names_of_files() -> Iterator[str]:
    """A zone by its name can be given to another process, one that was read from a file cannot."""
    yield str(LOCAL_TIME.resolve()).partition("/zoneinfo/")[2]
    try:
        yield TIME_ZONE.read_text().strip()
    except (OSError, ValueError):
        return
