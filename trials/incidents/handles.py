"""The recorder's side of members: start one of any client, command it, see its assignment, freeze it, kill it."""

import json
import signal
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ottla.groups.events import readable_assignment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient
from tests.support.clients.raw_member import RawMember
from tests.support.kit.consumer_protocol import assign_range, encode_assignment, encode_subscription
from tests.support.processes import JavaProgram, LineProgram
from trials.incidents.members.program import MemberSettings, java_settings

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
        self._member.client.socket.settimeout(REQUEST_SECONDS_MAX)
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


MEMBER_PROGRAM = (sys.executable, "-m", "trials.incidents.members.program")
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
CLOSE_SECONDS_MAX, START_SECONDS_MAX = 30, 30
LOOK_EVERY_S = 0.1


class Handle(Protocol):
    """One running member."""

    name: str

    def assignment(self) -> set[str]:
        """The partitions that it reported last, as TOPIC-NUMBER."""

    def wait_until_started(self) -> None:
        """Until its consumer is there and has subscribed."""

    def do(self, action: str, **more: Any) -> None:
        """Command something, without waiting for it."""

    def close(self) -> None:
        """Have the consumer closed in order, and wait for it."""

    def freeze(self) -> None:
        """Stop its process (SIGSTOP)."""

    def thaw(self) -> None:
        """Let its process go on."""

    def kill(self) -> None:
        """Kill it, if it still runs; no request is sent."""


class ProgramMember:
    """A member that lives in a program: one of its own, which freezes and dies with it, or one with other members."""

    def __init__(self, name: str, program: LineProgram, *, is_alone: bool) -> None:
        self.name = name
        self._program = program
        self._is_alone = is_alone
        self._since = len(program.events)
        self._is_closed = False

    def assignment(self) -> set[str]:
        """See Handle."""
        for event in reversed(self._program.events[self._since :]):
            if event.get("member") == self.name and event["event"] == "assignment":
                return set(event["partitions"])
        return set()

    def wait_until_started(self) -> None:
        """See Handle."""
        self._program.wait_for(
            lambda events: any(each.get("member") == self.name and each["event"] == "started" for each in events),
            f"{self.name} to start",
            since=self._since,
            seconds=START_SECONDS_MAX,
        )

    def do(self, action: str, **more: Any) -> None:
        """See Handle."""
        self._program.send(json.dumps({"member": self.name, "do": action, **more}))

    def close(self) -> None:
        """See Handle."""
        since = len(self._program.events)
        self.do("close")
        self._program.wait_for(
            lambda events: any(each.get("member") == self.name and each.get("do") == "close" for each in events),
            f"{self.name} to close",
            since=since,
            seconds=CLOSE_SECONDS_MAX,
        )
        self._is_closed = True
        if self._is_alone:
            self._program.close()

    def freeze(self) -> None:
        """See Handle."""
        assert self._is_alone, "others live in its process"
        self._program.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """See Handle."""
        self._program.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """See Handle. A member that shares its process is closed instead."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_alone:
            self._program.kill()
        else:
            self.do("close")


class RawHandle:
    """A RawConsumer as a handle."""

    def __init__(self, name: str, consumer: RawConsumer) -> None:
        self.name = name
        self.consumer = consumer

    def assignment(self) -> set[str]:
        """See Handle."""
        return set(self.consumer.assignment)

    def wait_until_started(self) -> None:
        """See Handle: it lives in this process."""

    def do(self, action: str, **more: Any) -> None:
        """See Handle: it can `rejoin` only."""
        assert action == "rejoin"
        self.consumer.rejoin()

    def close(self) -> None:
        """See Handle: it does not leave."""
        self.consumer.close()

    def freeze(self) -> None:
        """See Handle: it lives in this process."""
        raise NotImplementedError

    thaw = freeze

    def kill(self) -> None:
        """See Handle."""
        self.consumer.close()


def start_python_member(settings: MemberSettings, log_path: Path) -> ProgramMember:
    """A process with one member of a Python client; its log is appended to `log_path`."""
    program = LineProgram([*MEMBER_PROGRAM, settings.to_json()], error_path=log_path)
    return ProgramMember(settings.name, program, is_alone=True)


def start_java_member(settings: MemberSettings, program: JavaProgram, *, is_alone: bool) -> ProgramMember:
    """A Java member in a running program."""
    properties = java_settings(settings)
    if settings.protocol == "classic":
        properties["partition.assignment.strategy"] = ",".join(JAVA_ASSIGNORS[each] for each in settings.assignors)
    member = ProgramMember(settings.name, program, is_alone=is_alone)
    member.do("start", topics=list(settings.topics), pattern=settings.pattern, settings=properties)
    return member


def java_log_options(directory: Path, log_path: Path, layout: str) -> Sequence[str]:
    """Options of a JVM that appends its log to a file."""
    configuration = directory / f"{log_path.stem}.log4j2.yaml"
    configuration.write_text(
        "Configuration:\n  status: warn\n  Appenders:\n    File:\n      name: file\n"
        f'      fileName: "{log_path}"\n      PatternLayout:\n        pattern: "{layout}"\n'
        "  Loggers:\n    Root:\n      level: INFO\n      AppenderRef:\n        ref: file\n"
    )
    return [f"-Dlog4j2.configurationFile={configuration}"]


def wait_until_divided(members: Collection[Handle], topics: Mapping[str, int], *, settled_s: float, seconds_max: float) -> None:
    """Until the members own each partition once, each at least one, and that has been so for `settled_s`. Raises TimeoutError."""
    everything = sorted(f"{topic}-{number}" for topic, count in topics.items() for number in range(count))
    deadline = time.monotonic() + seconds_max
    since_s, before = time.monotonic(), None
    while time.monotonic() < deadline:
        owned = [sorted(member.assignment()) for member in members]
        if owned != before:
            since_s, before = time.monotonic(), owned
        is_divided = all(owned) and sorted(name for names in owned for name in names) == everything
        if is_divided and time.monotonic() - since_s >= settled_s:
            return
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"not stable after {seconds_max} s: {before}")
