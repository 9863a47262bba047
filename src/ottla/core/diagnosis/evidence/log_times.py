"""Finds the time of a log line: in the layouts of Log4j, Python's logging, Docker, Kubernetes, journald and librdkafka.

A time of day without a date is no time, and neither is syslog's `Nov 22 14:31:07`, which names no year.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

ISO_TIME: Final = re.compile(
    r"(?<!\d)(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:\s?(Z)(?![A-Za-z])|\s?([+-]\d\d):?(\d\d)(?!\d))?",
)
EPOCH_SECONDS: Final = re.compile(r"%\d\|(\d{9,11})\.(\d{3})\|")
"""How librdkafka's log callback writes to stderr: `%4|1763800000.123|MAXPOLL|...`."""

ZONE_STEP_MS: Final = 15 * 60_000
"""Time zones differ by multiples of a quarter of an hour."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)


class LogClock:
    """Reads times of one log in milliseconds since 1970; `zone` is for those that name none.

    In the hour that a change to winter time repeats, a time without a zone is taken as the first of the two.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._minute = ""
        self._minute_ms = 0

    def minute_ms(self, minute: str) -> int | None:
        """The time of `2026-11-22 14:31`, remembered: lines come in the order of time. None where there is no such minute."""
        if minute != self._minute:
            try:
                local = datetime(
                    int(minute[:4]), int(minute[5:7]), int(minute[8:10]), int(minute[11:13]), int(minute[14:16]), tzinfo=self._zone
                )
                self._minute_ms = (local - EPOCH) // MILLISECOND
            except (ValueError, OverflowError):
                return None
            self._minute = minute
        return self._minute_ms

    def find_ms(self, head: str) -> int | None:
        """The time in what precedes a message, None where there is none.

        A line that a collector wrapped has two. The last is the program's own and the more exact one; where only the collector's has a
        zone, that says which zone the program's is in.
        """
        epoch = EPOCH_SECONDS.search(head)
        if epoch is not None:
            return int(epoch[1]) * 1000 + int(epoch[2])
        own_ms = zoned_ms = None
        is_zoned = False
        for found in ISO_TIME.finditer(head):
            at_ms, is_zoned = self._parse(found)
            if at_ms is None:
                continue
            own_ms = at_ms
            zoned_ms = at_ms if is_zoned else zoned_ms
        if own_ms is not None and zoned_ms is not None and not is_zoned:
            return own_ms - round((own_ms - zoned_ms) / ZONE_STEP_MS) * ZONE_STEP_MS
        return own_ms

    def _parse(self, found: re.Match[str]) -> tuple[int | None, bool]:
        year, month, day, hour, minute, second, fraction, zulu, zone_hours, zone_minutes = found.groups()
        within_ms = int(second) * 1000 + int(((fraction or "") + "000")[:3])
        minute_text = f"{year}-{month}-{day} {hour}:{minute}"
        if zulu is None and zone_hours is None:
            start_ms = self.minute_ms(minute_text)
            return (None if start_ms is None else start_ms + within_ms), False
        try:
            start = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=UTC)
        except ValueError:
            return None, True
        offset_ms = 0
        if zone_hours is not None:
            sign = -1 if zone_hours[0] == "-" else 1
            offset_ms = sign * (int(zone_hours[1:]) * 60 + int(zone_minutes)) * 60_000
        return (start - EPOCH) // MILLISECOND + within_ms - offset_ms, True
