"""The recorder's side of members: start one of any client, command it, see its assignment, freeze it, kill it."""

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ottla.testing.incidents.members.raw_consumer import RawConsumer
from ottla.testing.incidents.members.settings import MemberSettings, java_settings
from ottla.testing.processes.java_program import JavaProgram
from ottla.testing.processes.line_program import LineProgram

MEMBER_PROGRAM = (sys.executable, "-m", "ottla.testing.incidents.members.program")
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
CLOSE_SECONDS_MAX, START_SECONDS_MAX = 30, 30


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
