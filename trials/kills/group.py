"""Reads a group's offsets and members periodically, beside what is processed; the group must never be ahead of that, nor go back."""

import threading
from collections.abc import Callable
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, Failure
from ottla.client.errors import ClientError
from ottla.core.errors import PeerError
from ottla.testing.streaming_kills.oracle import GroupSnapshot, Offsets, wrong_commits

CHECK_EVERY_S: Final = 0.05
ASK_MS_MAX: Final = 1_000
STABLE: Final = "Stable"


class Watcher(threading.Thread):
    """`processed` is called after the group was asked. Keeps what is wrong, and the group's offsets at the last check."""

    def __init__(self, servers: str, group: str, processed: Callable[[], Offsets]) -> None:
        super().__init__(daemon=True)
        self.committed: Offsets = {}
        self.checks = 0
        self.wrong: list[str] = []
        self._group = group
        self._processed = processed
        self._servers = servers
        self._admin = AdminClient(servers, timeout_ms=ASK_MS_MAX)
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(CHECK_EVERY_S):
            try:
                committed = self._admin.committed([self._group])[self._group]
            except (ClientError, PeerError, OSError):  # the broker is gone: that is the point
                continue
            if isinstance(committed, Failure):
                continue
            snapshot = GroupSnapshot({partition: each.offset for partition, each in committed.items()}, self._processed())
            self.wrong += wrong_commits(self.committed, snapshot)
            self.committed = snapshot.committed
            self.checks += 1
        self._admin.close()

    def has_members(self, count: int) -> bool:
        """Whether the group has so many members, and no rebalance under way; False while the broker does not answer."""
        try:
            with AdminClient(self._servers, timeout_ms=ASK_MS_MAX) as admin:
                group = admin.describe_groups([self._group])[self._group]
        except (ClientError, PeerError, OSError):
            return False
        return isinstance(group, DescribedGroup) and group.state == STABLE and len(group.members) == count

    def close(self) -> None:
        """Stop reading."""
        self._is_over.set()
        self.join()
