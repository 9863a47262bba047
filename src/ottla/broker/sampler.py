"""Periodic sampling on the broker's loop: base of what refreshes the snapshots that metrics and health pages show."""

import logging
from abc import ABC, abstractmethod

from ottla.broker.periodic import PeriodicTask

log = logging.getLogger(__name__)


class Sampler(ABC):
    """Call `start` when the broker serves, and `stop` before its logs are closed. A sample that fails is logged; the next one is taken."""

    subject: str
    """What is sampled, for the log line about a sample that failed."""

    def __init__(self) -> None:
        self._task = PeriodicTask(lambda: self.sample(), pause_s=lambda: self.pause_s(), failed=self._log_failure)

    @abstractmethod
    async def sample(self) -> None:
        """Take one sample."""

    @abstractmethod
    def pause_s(self) -> float:
        """How long to wait after a sample, in seconds."""

    def start(self) -> None:
        """Sample from now on, on the running loop."""
        self._task.start()

    async def stop(self) -> None:
        """Stop sampling; the last snapshot stays."""
        await self._task.stop()

    def _log_failure(self, error: Exception) -> None:
        log.error("sampling %s failed; it is tried again", self.subject, exc_info=error)
