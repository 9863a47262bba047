"""The time zone for log lines that name none: as an option names it, else the machine's."""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

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
    return datetime.now(UTC).astimezone().tzinfo or UTC  # noqa: TID251 - the machine is asked, once, by the command line


def _names_of_files() -> Iterator[str]:
    """A zone by its name can be given to another process, one that was read from a file cannot."""
    yield str(LOCAL_TIME.resolve()).partition("/zoneinfo/")[2]
    try:
        yield TIME_ZONE.read_text().strip()
    except (OSError, ValueError):
        return
