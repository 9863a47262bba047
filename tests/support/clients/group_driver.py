"""Thousands of members of consumer groups, one connection each, in one thread and without a client library: for benchmarks and scale tests.

Each behaves as a consumer of the classic protocol: it joins, takes its id from the response, syncs, sends heartbeats, and joins again when
a heartbeat reports a rebalance. Frames are built beforehand where possible, and only the needed fields of responses are read
(tests.support.clients.group_frames). An error that a healthy group never gets ends the run.
"""

import heapq
import resource
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, host_and_port
from tests.support.clients.group_frames import Joined, error_of, heartbeat_frame, join_frame, read_joined, sync_frame
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

SESSION_TIMEOUT_MS = 1_800_000
HEARTBEAT_MS = 3_000
RETRY_MS = 20
READ_BYTES = 1 << 18
WAIT_SECONDS_MAX = 120
NOT_YET = frozenset((14, 15, 16))  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
ASSIGNMENT = encode_assignment({"t": [0]})
SUBSCRIPTION_HEAD = encode_subscription(["t"])[:-4]
"""All of it but the user data, which end it."""


class UnexpectedAnswer(Exception):
    """A response that a healthy group never gets, or none in time."""


class Spent(NamedTuple):
    """What a run took: seconds on the clock, and seconds of processor time in this process (the driver's own share)."""

    seconds: float
    cpu_seconds: float


class Rate(NamedTuple):
    """Answers counted in a time, and the share of one core that the driver itself used."""

    per_second: float
    driver_share: float


class Group:
    """One group's frames, and who is synced in which generation."""

    __slots__ = ("name", "round", "size", "synced")

    def __init__(self, name: bytes, size: int) -> None:
        self.name = name
        self.size = size
        self.round = 0
        self.synced: Counter[int] = Counter()

    def join_frame(self, member_id: bytes) -> bytes:
        """JoinGroup with metadata that differ in each rebalance, so that any member's join starts it."""
        metadata = SUBSCRIPTION_HEAD + struct.pack(">ii", 4, self.round)
        return join_frame(self.name, member_id, metadata, SESSION_TIMEOUT_MS)


class Connection:
    """One connection and its member. `expecting` handles the response to the one request in flight."""

    __slots__ = ("expecting", "generation", "group", "member_id", "received", "socket")

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=WAIT_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = b""
        self.group = Group(b"", 0)
        self.member_id = b""
        self.generation = -1
        self.expecting: Callable[[Connection, bytes], None] | None = None

    def send(self, data: bytes | memoryview) -> None:
        """Send all of it; waits where the broker does not read."""
        sent = self.socket.send(data)
        while sent < len(data):
            self._wait(select.POLLOUT)
            sent += self.socket.send(data[sent : sent + READ_BYTES])

    def receive(self) -> bytes:
        """What there is to read."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise UnexpectedAnswer("the broker closed the connection")
        return data

    def receive_later(self) -> bytes:
        """Wait until there is something to read."""
        self._wait(select.POLLIN)
        return self.receive()

    def _wait(self, event: int) -> None:
        poll = select.poll()  # select.select ends at 1,024 descriptors
        poll.register(self.socket, event)
        if not poll.poll(WAIT_SECONDS_MAX * 1000):
            raise UnexpectedAnswer(f"nothing for {WAIT_SECONDS_MAX} s")

    def ask(self, frame: bytes) -> bytes:
        """Send one frame and wait for its answer, size included, where nothing else is under way."""
        self.send(frame)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4]):
            answer += self.receive_later()
        return answer

    def frames_later(self) -> Iterable[bytes]:
        """Wait until there is something to read; the whole answers of it."""
        self._wait(select.POLLIN)
        return self.frames()

    def frames(self) -> Iterable[bytes]:
        """The whole answers that are there, without their sizes."""
        data = self.received + self.receive()
        at = 0
        while len(data) - at >= 4:
            end = at + 4 + int.from_bytes(data[at : at + 4])
            if end > len(data):
                break
            yield data[at + 4 : end]
            at = end
        self.received = data[at:]


class GroupDriver:
    """`connections` connections to one broker. `form` makes a member of each; `rejoin` and `stream` then drive those.

    `heartbeat_ms` is the heartbeat interval of a synced member while others are not synced; 3 s is the default of every client.
    """

    def __init__(self, bootstrap_servers: str, connections: int, *, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        self.bootstrap_servers = bootstrap_servers
        self.heartbeat_ms = heartbeat_ms
        self._poll = select.epoll()
        self.connections = [Connection(host_and_port(bootstrap_servers)) for _ in range(connections)]
        self._by_fd = {each.socket.fileno(): each for each in self.connections}
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0
        self._groups_left = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._poll.close()
        for each in self.connections:
            each.socket.close()

    def wait_for_coordinator(self, group: str) -> None:
        """Return when the group's coordinator is known and has loaded; no member has joined then."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        with RawClient(self.bootstrap_servers) as client:
            while True:
                found = client.call(ApiKey.FIND_COORDINATOR, 0, key=group).error_code
                if found not in NOT_YET and client.call(ApiKey.DESCRIBE_GROUPS, 0, groups=[group]).groups[0].error_code not in NOT_YET:
                    return
                if time.monotonic() > deadline:
                    raise UnexpectedAnswer(f"no coordinator for {group}")
                time.sleep(0.01)

    def form(self, groups: Sequence[str]) -> Spent:
        """Every connection becomes a new member of the group at its place in `groups`.

        Ends when in each group all members are synced in one generation.
        """
        sizes = Counter(groups)
        made = {name: Group(name.encode(), size) for name, size in sizes.items()}
        for connection, name in zip(self.connections, groups, strict=True):
            connection.group = made[name]
            connection.member_id = b""
        return self._join_all(list(made.values()))

    def rejoin(self) -> Spent:
        """Every member joins again with new metadata. Ends when all are synced in one new generation."""
        return self._join_all(list({id(each.group): each.group for each in self.connections}.values()))

    def _join_all(self, groups: list[Group]) -> Spent:
        for group in groups:
            group.round += 1
            group.synced.clear()
        self._groups_left = len(groups)
        self._later.clear()
        frames = [each.group.join_frame(each.member_id) for each in self.connections]
        cpu, begin = time.thread_time(), time.perf_counter()
        for connection, frame in zip(self.connections, frames):
            connection.expecting = self._on_joined
            connection.send(frame)
        deadline = begin + WAIT_SECONDS_MAX
        while self._groups_left:
            self._turn(deadline)
        spent = Spent(time.perf_counter() - begin, time.thread_time() - cpu)
        self._later.clear()
        while any(each.expecting is not None for each in self.connections):  # heartbeats in flight
            self._turn(deadline)
        return spent

    def _turn(self, deadline: float) -> None:
        later = self._later
        now = time.perf_counter()
        if now > deadline:
            raise UnexpectedAnswer(f"{self._groups_left} groups were not formed within {WAIT_SECONDS_MAX} s")
        while later and later[0][0] <= now:
            heapq.heappop(later)[2]()
        for fd, _ in self._poll.poll(min(later[0][0] - now, 1) if later else 1):
            connection = self._by_fd[fd]
            for answer in connection.frames():
                assert connection.expecting is not None, "a response without a request"
                connection.expecting(connection, answer)

    def _after(self, milliseconds: float, action: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._later, (time.perf_counter() + milliseconds / 1000, self._planned, action))

    def _join(self, connection: Connection) -> None:
        connection.expecting = self._on_joined
        connection.send(connection.group.join_frame(connection.member_id))

    def _on_joined(self, connection: Connection, answer: bytes) -> None:
        joined = read_joined(answer)
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            connection.member_id = joined.member_id
            self._join(connection)
        elif joined.error in NOT_YET:
            self._after(RETRY_MS, lambda: self._join(connection))
        elif joined.error:
            raise UnexpectedAnswer(f"JoinGroup: error {joined.error}")
        else:
            self._sync(connection, joined)

    def _sync(self, connection: Connection, joined: Joined) -> None:
        connection.member_id, connection.generation = joined.member_id, joined.generation
        connection.expecting = self._on_synced
        connection.send(sync_frame(connection.group.name, joined.generation, joined.member_id, joined.members, ASSIGNMENT))

    def _on_synced(self, connection: Connection, answer: bytes) -> None:
        error = error_of(answer)
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._join(connection)
            return
        if error:
            raise UnexpectedAnswer(f"SyncGroup: error {error}")
        group, connection.expecting = connection.group, None
        group.synced[connection.generation] += 1
        if group.synced[connection.generation] == group.size:
            self._groups_left -= 1
        else:
            generation = connection.generation
            self._after(self.heartbeat_ms, lambda: self._send_heartbeat(connection, generation))

    def _send_heartbeat(self, connection: Connection, generation: int) -> None:
        if connection.expecting is None and connection.generation == generation:
            connection.expecting = self._on_heartbeat
            connection.send(heartbeat_frame(connection.group.name, generation, connection.member_id))

    def _on_heartbeat(self, connection: Connection, answer: bytes) -> None:
        error, connection.expecting = error_of(answer), None
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._join(connection)
        elif error:
            raise UnexpectedAnswer(f"Heartbeat: error {error}")
        else:
            generation = connection.generation
            self._after(self.heartbeat_ms, lambda: self._send_heartbeat(connection, generation))

    def stream(self, requests: Sequence[Sequence[bytes]], in_flight: int, seconds: float) -> Rate:
        """As many connections as there are `requests` send theirs (frames of equal size) in a loop, `in_flight` of them at a time.

        The first of each is sent alone; every later response must have the same bytes. `ask` returns them.
        """
        streams = {each.socket.fileno(): _Stream(each, frames) for each, frames in zip(self.connections, requests)}
        cpu, begin = time.thread_time(), time.perf_counter()
        for stream in streams.values():
            stream.send(in_flight)
        end, answered, poll = begin + seconds, 0, self._poll.poll
        while time.perf_counter() < end:
            for fd, _ in poll(1):
                answered += streams[fd].advance()
        took, cpu_took = time.perf_counter() - begin, time.thread_time() - cpu
        for stream in streams.values():
            stream.finish(in_flight)
        return Rate(answered / took, cpu_took / took)


class _Stream:
    """One connection's requests, sent in a loop, and its position in them."""

    __slots__ = ("answer", "at", "connection", "frame_bytes", "received", "ring", "ring_bytes")

    def __init__(self, connection: Connection, frames: Sequence[bytes]) -> None:
        assert len(set(map(len, frames))) == 1, "frames of a stream are equal in size"
        self.connection = connection
        self.frame_bytes = len(frames[0])
        self.ring_bytes = self.frame_bytes * len(frames)
        self.ring = memoryview(b"".join(frames) * 2)
        self.at = 0
        self.answer = connection.ask(frames[0])
        self.received = b""

    def send(self, count: int) -> None:
        """Send the next `count` frames; the ring is longer than what is in flight."""
        size = count * self.frame_bytes
        assert size <= self.ring_bytes
        self.connection.send(self.ring[self.at : self.at + size])
        self.at = (self.at + size) % self.ring_bytes

    def advance(self) -> int:
        """Read the responses that have arrived and send as many requests; return their number."""
        count = self._take(self.connection.receive())
        if count:
            self.send(count)
        return count

    def _take(self, received: bytes) -> int:
        data = self.received + received
        count = len(data) // len(self.answer)
        whole = count * len(self.answer)
        if data[:whole] != self.answer * count:
            raise UnexpectedAnswer(f"not all answers are the same: {data[:200]!r}, the first was {self.answer[:200]!r}")
        self.received = data[whole:]
        return count

    def finish(self, in_flight: int) -> None:
        """Read the responses that are still to come."""
        while in_flight > 0:
            in_flight -= self._take(self.connection.receive_later())
