"""The lease on a migration's target: one run at a time fills a topic, also from different machines.

It is the metadata of an offset that a group without members commits for the target, so that any cluster since Kafka 0.9 keeps it. A run
that finds it writes its own only after the other's has stood still for STALE_S; then it waits, and reads it again: of two that begin at
once, the one that wrote last has it. A thread renews it; a run that finds another's instead ends. It writes no record.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import current_process
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.errors import ClientError
from ottla.protocol.model import TopicPartition
from ottla.spark.migration.values import MigrationError

GROUP_PREFIX: Final = "ottla-migrate-"
"""Followed by the target's name. Such groups read nothing, and are not carried over."""
RENEW_S: Final = 1.0
STALE_S: Final = 5.0
"""The lease of a run that was killed does not change any more; the next run waits so long to see that."""
SETTLE_S: Final = 1.0
"""Longer than a commit takes."""
_LOOK_S: Final = 0.5


class Lease:
    """Taken on entry, given back on exit. `admin` is used by no one else meanwhile. Raises MigrationError, ClientError."""

    def __init__(
        self,
        admin: AdminClient,
        target: str,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._target = target
        self._group = GROUP_PREFIX + target
        self._place = TopicPartition(target, 0)
        self._pause = pause
        self._clock = clock
        self._holder = f"process {current_process().pid} on {socket.gethostname()} {uuid4().hex}"
        self._count = 0
        self._lost: str | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_over, name="ottla-migrate-lease", daemon=True)

    def __enter__(self) -> Self:
        self._wait_for_the_other()
        self._write()
        self._pause(SETTLE_S)
        self._refuse(self._read())
        self._thread.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        if self._lost is None:
            with suppress(ClientError):  # the next run sees that the lease stands still
                self._admin.delete_groups([self._group])

    def check(self) -> None:
        """Raise MigrationError when another run has the lease now."""
        if self._lost is not None:
            raise self._refusal(self._lost)

    def _wait_for_the_other(self) -> None:
        first = found = self._read()
        until = self._clock() + STALE_S
        while found is not None and self._clock() < until:
            self._pause(_LOOK_S)
            found = self._read()
            if found is not None and found != first:
                raise self._refusal(found)

    def renew(self) -> None:
        """Write the lease again, or note that another run has it. Raises ClientError, MigrationError."""
        found = self._read()
        if found is not None and self._is_of_another(found):
            self._lost = found
        else:
            self._write()

    def _renew_until_over(self) -> None:
        while self._lost is None and not self._is_over.wait(RENEW_S):
            try:
                self.renew()
            except (ClientError, MigrationError):
                continue  # the cluster does not answer: no other run gets further either

    def _read(self) -> str | None:
        found = self._admin.committed([self._group])[self._group]
        if isinstance(found, Failure):
            raise MigrationError(f"the offsets of group {self._group} cannot be read: {found.message or found.code.name}")
        return found[self._place].metadata if self._place in found else None

    def _write(self) -> None:
        self._count += 1
        results = self._admin.commit(self._group, {self._place: CommittedOffset(self._count, metadata=f"{self._holder} {self._count}")})
        failures = [results] if isinstance(results, Failure) else [each for each in results.values() if each is not None]
        if failures:
            raise MigrationError(f"group {self._group} cannot commit: {failures[0].message or failures[0].code.name}")

    def _refuse(self, found: str | None) -> None:
        if found is None or self._is_of_another(found):
            raise self._refusal(found or "")

    def _is_of_another(self, found: str) -> bool:
        return not found.startswith(self._holder)

    def _refusal(self, found: str) -> MigrationError:
        who = " ".join(found.split(" ")[:-2])
        return MigrationError(
            f"another ottla migrate{f' ({who})' if who else ''} writes into {self._target}: wait until it has ended, or stop it, and run"
            " the same command again"
        )
