"""A log line that repeats: the first one is written at once, then one a minute with the number of those left out."""

from logging import Logger
from typing import Final

PERIOD_S: Final = 60.0


class RepeatedWarning:
    """One kind of line. Time is the event loop's."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._again_s = float("-inf")
        self._left_out = 0

    def warning(self, now_s: float, message: str) -> None:
        """Write the line, or counts it."""
        if now_s < self._again_s:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._again_s, self._left_out = now_s + PERIOD_S, 0
        self._log.warning("%s%s", message, more)
