"""A member made of bare requests, in a thread: it can do what client libraries do not, such as rejoin for no reason or never sync."""

import threading
import time
from collections.abc import Sequence

from ottla.core.errors import ErrorCode
from ottla.core.groups.event_members import readable_assignment
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import Disconnected, RawClient
from ottla.testing.clients.raw_member import RawMember
from ottla.testing.kit.consumer_protocol import assign_range, encode_assignment, encode_subscription

REQUEST_SECONDS_MAX = 60
HEARTBEAT_S = 0.5


def coordinator_of(group: str, servers: str) -> str:
    """Where the group is coordinated, HOST:PORT. Raises TimeoutError where no coordinator is found."""
    deadline = time.monotonic() + REQUEST_SECONDS_MAX
    with RawClient(servers) as client:
        while time.monotonic() < deadline:
            found = client.call(ApiKey.FIND_COORDINATOR, 0, key=group)
            if found.error_code == ErrorCode.NONE:
                return f"{found.host}:{found.port}"
            time.sleep(0.1)
    raise TimeoutError(f"no coordinator for {group}")


class RawConsumer:
    """One member of `group`, which assigns the partitions of `topics` (name to number) to all members when it leads.

    `assignment` has its partitions (TOPIC-NUMBER) while it knows them; `syncs=False`: it joins, and sends no SyncGroup.
    """

    def __init__(
        self, servers: str, group: str, topics: dict[str, int], *, client_id: str, timeout_ms: int = 6_000, syncs: bool = True
    ) -> None:
        self._member = RawMember(coordinator_of(group, servers), group, client_id=client_id)
        self._member.client.set_timeout(REQUEST_SECONDS_MAX)
        self._topics = topics
        self._timeout_ms = timeout_ms
        self._syncs = syncs
        self._rejoin = threading.Event()
        self._end = threading.Event()
        self.leads = False
        self.assignment: set[str] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def rejoin(self) -> None:
        """Send JoinGroup again, with nothing changed."""
        self._rejoin.set()

    def close(self) -> None:
        """Close the connection without leaving the group."""
        self._end.set()
        self._thread.join(REQUEST_SECONDS_MAX)
        self._member.close()

    def _run(self) -> None:
        try:
            self._join()
            while not self._end.wait(HEARTBEAT_S):
                answer = self._member.heartbeat()
                if answer == ErrorCode.REBALANCE_IN_PROGRESS or self._rejoin.is_set():
                    self._rejoin.clear()
                    self._join()
                elif answer == ErrorCode.UNKNOWN_MEMBER_ID:
                    return
                elif self._syncs:
                    self._commit()
        except (OSError, Disconnected, TimeoutError):
            return

    def _join(self) -> None:
        metadata = encode_subscription(sorted(self._topics))
        while not self._end.is_set():
            answer = self._member.join(
                [("range", metadata)],
                session_timeout_ms=self._timeout_ms if self._syncs else 4 * self._timeout_ms,
                rebalance_timeout_ms=self._timeout_ms,
            )
            if answer.error_code == ErrorCode.NONE:
                if self._syncs and self._sync(answer.leader == self._member.member_id, [each.member_id for each in answer.members]):
                    return
                if not self._syncs:
                    return
            elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member.member_id = ""
            else:
                time.sleep(0.1)

    def _sync(self, leads: bool, members: Sequence[str]) -> bool:
        self.leads = leads
        assigned = assign_range({member: sorted(self._topics) for member in members}, self._topics) if leads else {}
        code, own = self._member.sync({member: encode_assignment(parts) for member, parts in assigned.items()})
        if code != ErrorCode.NONE:
            return False
        parts = readable_assignment("consumer", own)
        self.assignment = {f"{topic}-{number}" for topic, numbers in parts.items() for number in numbers}
        return True

    def _commit(self) -> None:
        for name in sorted(self.assignment):
            topic, _, number = name.rpartition("-")
            self._member.commit(topic, int(number), int(time.time()) % 1000)
