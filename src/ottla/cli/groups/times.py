"""Points in time and spans of time as `--to-datetime` and `--by-duration` take them: text to milliseconds, as strictly as Kafka's tool.

It reads no clock.
"""

import datetime
import re
from typing import Final

from ottla.cli.clusters import CommandFailed

_DATETIME: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})T(\d{1,2}):(\d{1,2}):(\d{1,2})\.(\d{1,3})(?:Z|([+-])(\d{2}):?(\d{2})?)", re.ASCII
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,15})D)?(T(?:([-+]?\d{1,15})H)?(?:([-+]?\d{1,15})M)?(?:([-+]?\d{1,15})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


def parse_datetime_ms(text: str) -> int:
    """Milliseconds since 1970 of `YYYY-MM-DDThh:mm:ss.sss`, with a zone ("Z", "+02:00", "+0200", "+02") or in UTC. Raises CommandFailed."""
    _, has_t, time_of_day = text.partition("T")
    if not has_t or not time_of_day:
        raise CommandFailed("java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if any(mark in time_of_day for mark in "+-Z") else f"{text}Z"
    found = _DATETIME.fullmatch(zoned)
    if found is None:
        raise CommandFailed(f'java.text.ParseException: Unparseable date: "{zoned}"')
    *numbers, sign, hours, minutes = found.groups()
    year, month, day_of_month, hour, minute, second, millisecond = map(int, numbers)
    try:
        moment = datetime.datetime(year, month, day_of_month, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError as error:
        raise CommandFailed(f'java.text.ParseException: Unparseable date: "{zoned}"') from error
    offset_ms = (int(hours or 0) * 60 + int(minutes or 0)) * _MINUTE_MS * (-1 if sign == "-" else 1)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (moment - epoch) // datetime.timedelta(milliseconds=1) + millisecond - offset_ms


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration of days and smaller, `PnDTnHnMn.nS`, each with its own sign. Raises CommandFailed."""
    found = _DURATION.fullmatch(text)
    if found is None or found[3] in ("T", "t") or (found[2] is None and found[3] is None):
        raise CommandFailed("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    total_ms = int(days or 0) * _DAY_MS + int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS + int(seconds or 0) * _SECOND_MS
    fraction_ms = int((fraction or "").ljust(9, "0")) // 1_000_000
    total_ms += -fraction_ms if (seconds or "").startswith("-") else fraction_ms
    return -total_ms if sign == "-" else total_ms
