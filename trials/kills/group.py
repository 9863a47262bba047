"""The group of a kill test: who is in it, and an observer of its offsets and members."""

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, Failure
from ottla.client.errors import ClientError
from ottla.protocol.errors import PeerError
from trials.harness.oracle import GroupSnapshot, Offsets, wrong_commits

COMMIT, MEMBER = "commit", "member"
SPARK, PLAIN = "spark", "plain"


class LineUp(NamedTuple):
    """`mode`: the option `ottla.group.mode` of the queries; `members`: SPARK or PLAIN, each a process.

    `assignor`: partition.assignment.strategy of all; `is_static`: the queries have a group.instance.id. `session_ms`: session.timeout.ms,
    for so long the partitions of a killed member are read by no other; the default is the lowest that brokers allow by default.
    """

    name: str
    mode: str
    members: tuple[str, ...]
    assignor: str = "range"
    is_static: bool = False
    session_ms: int = 6_000
    heartbeat_ms: int = 1_000


ALONE: Final = LineUp("a query that commits", COMMIT, (SPARK,))
SHARING: Final = (
    LineUp("one application", MEMBER, (SPARK,)),
    LineUp("two applications", MEMBER, (SPARK, SPARK)),
    LineUp("beside a consumer, range", MEMBER, (SPARK, PLAIN)),
    LineUp("beside a consumer, cooperative-sticky", MEMBER, (SPARK, PLAIN), "cooperative-sticky"),
    LineUp("two static applications", MEMBER, (SPARK, SPARK), "cooperative-sticky", is_static=True),
)


def line_up(mode: str, number: int) -> LineUp:
    """That of the world with this number, from 1 on: in member mode each has its turn."""
    return ALONE if mode == COMMIT else SHARING[(number - 1) % len(SHARING)]


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
